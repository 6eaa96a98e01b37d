// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/model_shapes.h"

#include <fmt/format.h>

#include <filesystem>
#include <initializer_list>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/json.h"

namespace triax {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;

struct KnownModel {
  std::string_view name;
  int64_t hidden, intermediate, layers, heads, kv_heads, vocab, positions;
  bool is_tied;
};

// From the models' own config.json.
constexpr KnownModel kModels[] = {
    {"gpt2", 768, 3072, 12, 12, 12, 50257, 1024, true},
    {"gpt2-medium", 1024, 4096, 24, 16, 16, 50257, 1024, true},
    {"gpt2-large", 1280, 5120, 36, 20, 20, 50257, 1024, true},
    {"gpt2-xl", 1600, 6400, 48, 25, 25, 50257, 1024, true},
    {"llama-2-7b", 4096, 11008, 32, 32, 32, 32000, 4096, false},
    {"llama-2-13b", 5120, 13824, 40, 40, 40, 32000, 4096, false},
    {"llama-2-70b", 8192, 28672, 80, 64, 8, 32000, 4096, false},
    {"llama-3-8b", 4096, 14336, 32, 32, 8, 128256, 8192, false},
    {"llama-3-70b", 8192, 28672, 80, 64, 8, 128256, 8192, false},
    {"llama-3.1-8b", 4096, 14336, 32, 32, 8, 128256, 131072, false},
    {"llama-3.1-70b", 8192, 28672, 80, 64, 8, 128256, 131072, false},
    {"llama-3.1-405b", 16384, 53248, 126, 128, 8, 128256, 131072, false},
    {"llama-3.2-1b", 2048, 8192, 16, 32, 8, 128256, 131072, true},
    {"llama-3.2-3b", 3072, 8192, 28, 24, 8, 128256, 131072, true},
    {"mistral-7b", 4096, 14336, 32, 32, 8, 32000, 32768, false},
    {"qwen2.5-7b", 3584, 18944, 28, 28, 4, 152064, 131072, false},
    {"smollm2-135m", 576, 1536, 30, 9, 3, 49152, 8192, true},
};

ModelConfig config_of(const KnownModel& known) {
  ModelConfig model;
  model.family =
      known.name.starts_with("gpt2") ? ModelFamily::kGpt2 : ModelFamily::kLlama;
  model.hidden_size = known.hidden;
  model.intermediate_size = known.intermediate;
  model.num_hidden_layers = known.layers;
  model.num_attention_heads = known.heads;
  model.num_key_value_heads = known.kv_heads;
  model.head_dim = known.hidden / known.heads;
  model.vocab_size = known.vocab;
  model.max_position_embeddings = known.positions;
  model.tie_word_embeddings = known.is_tied;
  return model;
}

// The first of the names that holds a whole number above 0; else 0.
int64_t size_of(const Json& json, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = json.find(name);
    if (found != json.end() && found->is_number_integer() &&
        found->get<int64_t>() > 0) {
      return found->get<int64_t>();
    }
  }
  return 0;
}

}  // namespace

ModelConfig parse_model_shape(std::string_view text, const std::string& file) {
  const Json root = parse_json(text, file);
  const bool has_text_part = root.is_object() && root.contains("text_config") &&
                             root["text_config"].is_object();
  const Json& json = has_text_part ? root["text_config"] : root;
  if (!json.is_object()) {
    throw Error(file, ": a config.json holds a table of keys");
  }
  ModelConfig model;
  model.family = json.value("model_type", Json("")) == Json("gpt2")
                     ? ModelFamily::kGpt2
                     : ModelFamily::kLlama;
  model.hidden_size = size_of(json, {"hidden_size", "n_embd", "d_model"});
  model.num_hidden_layers =
      size_of(json, {"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  model.num_attention_heads =
      size_of(json, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  model.num_key_value_heads =
      size_of(json, {"num_key_value_heads", "num_kv_heads", "n_head_kv"});
  model.head_dim = size_of(json, {"head_dim"});
  model.vocab_size = size_of(json, {"vocab_size"});
  model.intermediate_size =
      size_of(json, {"intermediate_size", "n_inner", "ffn_dim"});
  model.max_position_embeddings = size_of(
      json, {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"});
  model.tie_word_embeddings =
      json.value("tie_word_embeddings",
                 Json(model.family == ModelFamily::kGpt2)) == Json(true);
  if (model.hidden_size == 0 || model.num_hidden_layers == 0 ||
      model.num_attention_heads == 0) {
    throw Error(file,
                ": hidden_size, num_hidden_layers and num_attention_heads "
                "must stand in a model's config.json");
  }
  if (model.num_key_value_heads == 0) {
    model.num_key_value_heads = model.num_attention_heads;
  }
  if (model.head_dim == 0) {
    model.head_dim = model.hidden_size / model.num_attention_heads;
  }
  return model;
}

std::vector<std::string_view> known_models() {
  std::vector<std::string_view> names;
  for (const KnownModel& known : kModels) {
    names.push_back(known.name);
  }
  return names;
}

ModelConfig load_model_shape(const std::string& name_or_path) {
  for (const KnownModel& known : kModels) {
    if (known.name == name_or_path) {
      return config_of(known);
    }
  }
  std::error_code error;
  const std::filesystem::path path(name_or_path);
  if (!std::filesystem::exists(path, error)) {
    throw Error("--model ",
                name_or_path,
                " is no file and none of the known models: ",
                fmt::format("{}", fmt::join(known_models(), ", ")));
  }
  const std::string file = std::filesystem::is_directory(path, error)
                               ? (path / "config.json").string()
                               : name_or_path;
  return parse_model_shape(read_file(file, kMaxBytes), file);
}

}  // namespace triax
