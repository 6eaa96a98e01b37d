// SPDX-License-Identifier: Apache-2.0
#include "triax/config/hf_config.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/json.h"
#include "triax/config/assign.h"

namespace triax {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

// Our key, the names it may have in config.json, and what transformers takes
// when it is absent or null (null: our own rule for a missing value holds).
struct HfKey {
  std::string_view key;
  std::vector<const char*> names;
  Json absent;
};

std::vector<HfKey> llama_keys() {
  return {
      {"model.vocab_size", {"vocab_size"}, 32000},
      {"model.hidden_size", {"hidden_size"}, 4096},
      {"model.intermediate_size", {"intermediate_size"}, 11008},
      {"model.num_hidden_layers", {"num_hidden_layers"}, 32},
      {"model.num_attention_heads", {"num_attention_heads"}, 32},
      {"model.num_key_value_heads", {"num_key_value_heads"}, nullptr},
      {"model.head_dim", {"head_dim"}, nullptr},
      {"model.max_position_embeddings", {"max_position_embeddings"}, 2048},
      {"model.norm_eps", {"rms_norm_eps"}, 1e-6},
      {"model.tie_word_embeddings", {"tie_word_embeddings"}, false},
      {"model.initializer_range", {"initializer_range"}, 0.02},
      {"model.attn_pdrop", {"attention_dropout"}, 0.0},
  };
}

std::vector<HfKey> gpt2_keys() {
  return {
      {"model.vocab_size", {"vocab_size"}, 50257},
      {"model.hidden_size", {"n_embd", "hidden_size"}, 768},
      {"model.intermediate_size", {"n_inner"}, nullptr},
      {"model.num_hidden_layers", {"n_layer", "num_hidden_layers"}, 12},
      {"model.num_attention_heads", {"n_head", "num_attention_heads"}, 12},
      {"model.max_position_embeddings",
       {"n_positions", "max_position_embeddings"},
       1024},
      {"model.norm_eps", {"layer_norm_epsilon"}, 1e-5},
      {"model.tie_word_embeddings", {"tie_word_embeddings"}, true},
      {"model.initializer_range", {"initializer_range"}, 0.02},
      {"model.resid_pdrop", {"resid_pdrop"}, 0.1},
      {"model.embd_pdrop", {"embd_pdrop"}, 0.1},
      {"model.attn_pdrop", {"attn_pdrop"}, 0.1},
  };
}

// Keys with the only values that our model computes.
struct Required {
  const char* name;
  std::vector<Json> values;  // null stands for an absent key
};

std::vector<Required> llama_required() {
  return {{"hidden_act", {nullptr, "silu", "swish"}},
          {"attention_bias", {nullptr, false}},
          {"mlp_bias", {nullptr, false}},
          {"sliding_window", {nullptr}},
          {"use_sliding_window", {nullptr, false}},
          {"partial_rotary_factor", {nullptr, 1.0}}};
}

std::vector<Required> gpt2_required() {
  return {{"activation_function", {nullptr, "gelu_new", "gelu_pytorch_tanh"}},
          {"scale_attn_weights", {nullptr, true}},
          {"scale_attn_by_inverse_layer_idx", {nullptr, false}},
          {"add_cross_attention", {nullptr, false}}};
}

// They say nothing about what the model computes while it trains.
const std::set<std::string>& ignored_names() {
  static const std::set<std::string> names = {"_attn_implementation",
                                              "_name_or_path",
                                              "add_bos_token",
                                              "add_eos_token",
                                              "architectures",
                                              "attn_implementation",
                                              "auto_map",
                                              "bos_token_id",
                                              "chunk_size_feed_forward",
                                              "decoder_start_token_id",
                                              "dtype",
                                              "eos_token_id",
                                              "gradient_checkpointing",
                                              "id2label",
                                              "is_decoder",
                                              "is_encoder_decoder",
                                              "is_llama_config",
                                              "label2id",
                                              "max_length",
                                              "model_type",
                                              "n_ctx",
                                              "name_or_path",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "pad_token_id",
                                              "pretraining_tp",
                                              "problem_type",
                                              "reorder_and_upcast_attn",
                                              "return_dict",
                                              "rope_interleaved",
                                              "rope_parameters",
                                              "rope_scaling",
                                              "rope_theta",
                                              "sep_token_id",
                                              "summary_activation",
                                              "summary_first_dropout",
                                              "summary_proj_to_labels",
                                              "summary_type",
                                              "summary_use_proj",
                                              "task_specific_params",
                                              "tokenizer_class",
                                              "torch_dtype",
                                              "transformers.js_config",
                                              "transformers_version",
                                              "unk_token_id",
                                              "use_cache"};
  return names;
}

bool names_experts(const std::string& name) {
  return name.find("expert") != std::string::npos || name.starts_with("moe_") ||
         name.starts_with("router_");
}

class HfReader {
 public:
  HfReader(const Json& json, std::string file, LoadedConfig& loaded)
      : json_(json), file_(std::move(file)), loaded_(loaded) {}

  void read() {
    if (!json_.is_object()) {
      refuse("is no JSON object", "");
      return;
    }
    const std::string type = model_type();
    if (type != "llama" && type != "gpt2") {
      refuse(fmt::format("model_type {} is not implemented", in_quotes(type)),
             "use a llama or a gpt2");
      return;
    }
    const bool is_llama = type == "llama";
    set("model.family", type, "model_type");
    for (const HfKey& key : is_llama ? llama_keys() : gpt2_keys()) {
      read_key(key);
    }
    for (const Required& required :
         is_llama ? llama_required() : gpt2_required()) {
      require(required);
    }
    if (is_llama) {
      read_rope();
    }
    look_at_the_rest();
  }

 private:
  // Files of the hub's first years have architectures alone.
  std::string model_type() {
    if (const Json* type = find("model_type"); type && type->is_string()) {
      return type->get<std::string>();
    }
    const Json* names = find("architectures");
    if (names != nullptr && names->is_array() && !names->empty() &&
        names->front().is_string()) {
      const std::string name = names->front().get<std::string>();
      return name == "LlamaForCausalLM"  ? "llama"
             : name == "GPT2LMHeadModel" ? "gpt2"
                                         : name;
    }
    return "";
  }

  const Json* find(const std::string& name) {
    used_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  void read_key(const HfKey& key) {
    const Json* value = nullptr;
    const char* name = key.names.front();
    for (const char* candidate : key.names) {
      const Json* found = find(candidate);
      if (found != nullptr && value != nullptr && *found != *value) {
        refuse(fmt::format("{} and {} differ", name, candidate),
               "leave one of them out");
      }
      name = found != nullptr && value == nullptr ? candidate : name;
      value = value == nullptr ? found : value;
    }
    if (value != nullptr) {
      set(key.key, *value, name);
    } else if (!key.absent.is_null()) {
      set(key.key, key.absent, name);
    }
  }

  void require(const Required& required) {
    const Json* found = find(required.name);
    const Json value = found == nullptr ? Json(nullptr) : *found;
    for (const Json& possible : required.values) {
      if (value == possible) {
        return;
      }
    }
    refuse(
        fmt::format("{} = {} is not implemented", required.name, shown(value)),
        "");
  }

  // transformers: rope_scaling if it is not null, else rope_parameters.
  void read_rope() {
    const Json* scaling = find("rope_scaling");
    const Json* rope = scaling != nullptr ? scaling : find("rope_parameters");
    const Json table = rope == nullptr ? Json::object() : *rope;
    if (!table.is_object()) {
      refuse("its RoPE parameters are no object", "");
      return;
    }
    const Json* theta = find("rope_theta");
    set("model.rope_theta",
        table.value("rope_theta", theta == nullptr ? Json(1e4) : *theta),
        "rope_theta");
    const Json type =
        table.value("rope_type", table.value("type", Json("default")));
    if (type != "default" && type != "llama3") {
      refuse(fmt::format("RoPE of type {} is not implemented", shown(type)),
             "use default or llama3");
      return;
    }
    set("model.rope_scaling.type", type, "rope_type");
    if (type == "llama3") {
      read_llama3(table);
    }
  }

  void read_llama3(const Json& table) {
    for (const char* name : {"factor", "low_freq_factor", "high_freq_factor"}) {
      if (!table.contains(name)) {
        refuse(fmt::format("RoPE of type llama3 needs {}", name), "");
      } else {
        set(std::string("model.rope_scaling.") + name, table[name], name);
      }
    }
    const char* name = "original_max_position_embeddings";
    const int64_t positions = loaded_.config.model.max_position_embeddings;
    set(std::string("model.rope_scaling.") + name,
        table.value(name, Json(positions)),
        name);
  }

  void look_at_the_rest() {
    for (const auto& [name, value] : json_.items()) {
      if (used_.contains(name) || ignored_names().contains(name)) {
        continue;
      }
      if (value.is_null() || value == false || value == 0) {
        continue;
      }
      if (names_experts(name)) {
        add(Severity::kError,
            "no-experts",
            fmt::format("{} = {}: mixture of experts is not offered",
                        name,
                        shown(value)),
            "use a dense model");
      } else if (name == "quantization_config") {
        refuse("its weights are quantised", "use the unquantised model");
      } else {
        add(Severity::kNote,
            "hf-unknown-key",
            fmt::format("{} has no meaning for triax", in_quotes(name)),
            "");
      }
    }
  }

  void set(std::string_view key, const Json& value, const std::string& name) {
    const Field* field = find_field(key);
    TRIAX_CHECK(field != nullptr, key);
    const std::optional<Complaint> complaint =
        assign(*field, as_config_value(value), loaded_.config);
    if (complaint) {
      refuse(fmt::format("{}: {}", name, complaint->message), complaint->fix);
    } else {
      loaded_.derived[std::string(key)] = file_;
    }
  }

  static ConfigValue as_config_value(const Json& value) {
    switch (value.type()) {
      case Json::value_t::boolean:
        return {value.get<bool>(), {}};
      case Json::value_t::number_integer:
        return {value.get<int64_t>(), {}};
      case Json::value_t::number_unsigned:
        return {
            static_cast<int64_t>(std::min<uint64_t>(
                value.get<uint64_t>(), std::numeric_limits<int64_t>::max())),
            {}};
      case Json::value_t::number_float:
        return {value.get<double>(), {}};
      case Json::value_t::string:
        return {value.get<std::string>(), {}};
      default:
        return {ForeignValue{value.type_name()}, {}};
    }
  }

  static std::string shown(const Json& value) {
    const std::string text = dump_json(value);
    return text.size() <= 60 ? text : text.substr(0, 60) + "…";
  }

  void refuse(const std::string& message, const std::string& fix) {
    add(Severity::kError, "hf-config", message, fix);
  }

  void add(Severity severity,
           const std::string& rule,
           const std::string& message,
           const std::string& fix) {
    loaded_.problems.push_back({severity,
                                rule,
                                "model.hf",
                                loaded_.position_of("model.hf"),
                                file_ + ": " + message,
                                fix});
  }

  const Json& json_;
  const std::string file_;
  LoadedConfig& loaded_;
  std::set<std::string> used_;
};

}  // namespace

void apply_hf_config(LoadedConfig& loaded) {
  const std::string& path = loaded.config.model.hf;
  std::error_code ignored;
  const std::string file =
      std::filesystem::is_directory(path, ignored)
          ? (std::filesystem::path(path) / "config.json").string()
          : path;
  try {
    const Json json = parse_json(read_file(file, kMaxBytes), file);
    HfReader(json, file, loaded).read();
  } catch (const Error& error) {
    loaded.add_error("hf-config",
                     "model.hf",
                     error.what(),
                     "give a config.json or the folder that holds one");
  }
}

}  // namespace triax
