// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/model_details.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "triax/base/file.h"
#include "triax/base/json.h"
#include "triax/config/run_config.h"
#include "triax/foreign/model_shapes.h"

namespace triax {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

// Of the models that are known by name, from their own config.json; the
// releases of mistral-7b differ in RoPE's base.
struct KnownDetails {
  std::string_view names;  // the beginning of the name
  double norm_eps;
  double rope_theta;   // 0: none, or not known
  double rope_factor;  // 0: no scaling
};

constexpr KnownDetails kKnown[] = {
    {"gpt2", 1e-5, 0, 0},
    {"llama-2-", 1e-5, 1e4, 0},
    {"llama-3-", 1e-5, 5e5, 0},
    {"llama-3.1-", 1e-5, 5e5, 8},
    {"llama-3.2-", 1e-5, 5e5, 32},
    {"mistral-7b", 1e-5, 0, 0},
    {"qwen2.5-", 1e-6, 1e6, 0},
    {"smollm2-", 1e-5, 1e5, 0},
};

class Details {
 public:
  void add(const char* name, Json value) {
    found_.push_back({name, std::move(value)});
  }

  void of_gpt2(const Json& json) {
    add("architecture", "gpt2");
    add("norm_eps", number(json, "layer_norm_epsilon", 1e-5));
    add("linear_bias", true);
    add("qkv_bias", true);
    const double resid = number(json, "resid_pdrop", 0.1);
    const double embd = number(json, "embd_pdrop", 0.1);
    if (resid == embd) {
      add("hidden_dropout", resid);
    } else {
      add("resid_dropout", resid);
      add("embd_dropout", embd);
    }
    add("attention_dropout", number(json, "attn_pdrop", 0.1));
  }

  // Without biases and dropout, but for what the file says.
  void of_llama(const std::string& type, const Json& json) {
    const bool has_bias = is_on(json, "attention_bias");
    add("architecture", type == "mistral" ? "llama" : type);
    add("linear_bias", is_on(json, "mlp_bias"));
    add("qkv_bias", type == "qwen2" || has_bias);
    add("qk_norm", type == "qwen3");
    add("hidden_dropout", 0.0);
    add("attention_dropout", number(json, "attention_dropout", 0.0));
    const bool has_window = type != "qwen2" && type != "qwen3";
    if ((has_window || is_on(json, "use_sliding_window")) &&
        json.contains("sliding_window") && json["sliding_window"].is_number()) {
      add("sliding_window", json["sliding_window"]);
    }
  }

  // Keys that many architectures share; `is_known`: with llama's defaults.
  void of_config(const Json& json, bool is_known) {
    for (const char* name :
         {"rms_norm_eps", "norm_eps", "layer_norm_eps", "layer_norm_epsilon"}) {
      if (json.contains(name) && json[name].is_number()) {
        add("norm_eps", json[name].get<double>());
        read_rope(json, is_known);
        return;
      }
    }
    if (is_known) {
      add("norm_eps", 1e-6);
    }
    read_rope(json, is_known);
  }

  void of_scaling(const Json& table) {
    const RopeScaling usual;
    const Json type =
        table.value("rope_type", table.value("type", Json("default")));
    if (type == Json("default") || !type.is_string()) {
      return;
    }
    add("rope_scaling", type);
    add("rope_factor", number(table, "factor", usual.factor));
    const bool is_usual =
        number(table, "low_freq_factor", 0) == usual.low_freq_factor &&
        number(table, "high_freq_factor", 0) == usual.high_freq_factor &&
        number(table, "original_max_position_embeddings", 0) ==
            static_cast<double>(usual.original_max_position_embeddings);
    if (type == Json("llama3")) {
      add("rope_is_usual", is_usual);
    }
  }

  std::vector<NamedFact> take() { return std::move(found_); }

 private:
  static double number(const Json& json, const char* name, double or_else) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number() ? found->get<double>()
                                                     : or_else;
  }

  static bool is_on(const Json& json, const char* name) {
    return json.value(name, Json(false)) == Json(true);
  }

  // transformers: rope_scaling if it is not null, else rope_parameters.
  void read_rope(const Json& json, bool is_known) {
    Json table = Json::object();
    for (const char* name : {"rope_parameters", "rope_scaling"}) {
      if (json.contains(name) && json[name].is_object()) {
        table = json[name];
      }
    }
    const double theta = number(
        table, "rope_theta", number(json, "rope_theta", is_known ? 1e4 : 0));
    if (theta > 0) {
      add("rope_theta", theta);
    }
    of_scaling(table);
  }

  std::vector<NamedFact> found_;
};

bool is_llama_like(const std::string& type) {
  return type == "llama" || type == "mistral" || type == "qwen2" ||
         type == "qwen3";
}

std::vector<NamedFact> details_of(const std::string& name,
                                  const KnownDetails& known) {
  Details details;
  if (name.starts_with("gpt2")) {
    details.of_gpt2(Json::object());
    return details.take();
  }
  details.of_llama(name.starts_with("qwen2") ? "qwen2" : "llama",
                   Json::object());
  details.add("norm_eps", known.norm_eps);
  if (known.rope_theta > 0) {
    details.add("rope_theta", known.rope_theta);
  }
  if (known.rope_factor > 0) {
    details.add("rope_scaling", "llama3");
    details.add("rope_factor", known.rope_factor);
    details.add("rope_is_usual", true);
  }
  return details.take();
}

}  // namespace

std::vector<NamedFact> parse_model_details(std::string_view text,
                                           const std::string& file) {
  const Json root = parse_json(text, file);
  const bool has_text_part = root.is_object() && root.contains("text_config") &&
                             root["text_config"].is_object();
  const Json& json = has_text_part ? root["text_config"] : root;
  Details details;
  if (!json.is_object()) {
    return {};
  }
  const Json named = json.value("model_type", Json(""));
  const std::string type = named.is_string() ? named.get<std::string>() : "";
  if (type == "gpt2") {
    details.of_gpt2(json);
    return details.take();
  }
  if (is_llama_like(type)) {
    details.of_llama(type, json);
  } else if (!type.empty()) {
    details.add("architecture", type);
  }
  details.of_config(json, is_llama_like(type));
  return details.take();
}

std::string open_model_detail(std::string_view name) {
  return name == "mistral-7b"
             ? "rope_theta: mistral-7b's first release has 10000, the later "
               "ones 1000000: give the config.json of yours as --model"
             : "";
}

std::vector<NamedFact> load_model_details(const std::string& name_or_path) {
  std::error_code error;
  const std::filesystem::path path(name_or_path);
  const std::vector<std::string_view> names = known_models();
  if (std::find(names.begin(), names.end(), name_or_path) != names.end()) {
    for (const KnownDetails& known : kKnown) {
      if (name_or_path.starts_with(known.names)) {
        return details_of(name_or_path, known);
      }
    }
    return {};
  }
  const std::string file = std::filesystem::is_directory(path, error)
                               ? (path / "config.json").string()
                               : name_or_path;
  return parse_model_details(read_file(file, kMaxBytes), file);
}

}  // namespace triax
