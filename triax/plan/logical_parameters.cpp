// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/logical_parameters.h"

#include <cmath>
#include <utility>

#include "triax/base/error.h"

namespace triax {

namespace {

// V vocabulary, T positions, H hidden, F feed-forward, A heads * head_dim,
// K KV heads * head_dim

class ParameterList {
 public:
  explicit ParameterList(const ModelConfig& model) : model_(model) {}

  /// Names that follow get this prefix and layer.
  void begin(std::string prefix, int layer) {
    prefix_ = std::move(prefix);
    layer_ = layer;
  }

  void normal(const std::string& name,
              std::vector<int64_t> shape,
              ParameterRole role = ParameterRole::kMatrix) {
    add(name, std::move(shape), role, {.normal_std = model_.initializer_range});
  }

  /// GPT-2 scales what it adds to the residual stream.
  void residual(const std::string& name, std::vector<int64_t> shape) {
    const double scale = std::sqrt(2.0 * model_.num_hidden_layers);
    add(name,
        std::move(shape),
        ParameterRole::kMatrix,
        {.normal_std = model_.initializer_range / scale});
  }

  void norm(const std::string& name, int64_t length) {
    add(name, {length}, ParameterRole::kNorm, {.constant = 1.0});
  }

  void bias(const std::string& name, int64_t length) {
    add(name, {length}, ParameterRole::kBias, {});
  }

  std::vector<LogicalParameter> take() { return std::move(list_); }

 private:
  void add(const std::string& name,
           std::vector<int64_t> shape,
           ParameterRole role,
           InitialValue initial) {
    list_.push_back({.name = prefix_ + name,
                     .shape = std::move(shape),
                     .role = role,
                     .initial = initial,
                     .layer = layer_});
  }

  const ModelConfig& model_;
  std::string prefix_;
  int layer_ = -1;
  std::vector<LogicalParameter> list_;
};

void add_llama(const ModelConfig& model, ParameterList& list) {
  const int64_t H = model.hidden_size;
  const int64_t F = model.intermediate_size;
  const int64_t A = model.num_attention_heads * model.head_dim;
  const int64_t K = model.num_key_value_heads * model.head_dim;
  list.begin("model.", -1);
  list.normal(
      "embed_tokens.weight", {model.vocab_size, H}, ParameterRole::kEmbedding);
  for (int layer = 0; layer < model.num_hidden_layers; ++layer) {
    list.begin("model.layers." + std::to_string(layer) + ".", layer);
    list.norm("input_layernorm.weight", H);
    list.normal("self_attn.q_proj.weight", {A, H});
    list.normal("self_attn.k_proj.weight", {K, H});
    list.normal("self_attn.v_proj.weight", {K, H});
    list.normal("self_attn.o_proj.weight", {H, A});
    list.norm("post_attention_layernorm.weight", H);
    list.normal("mlp.gate_proj.weight", {F, H});
    list.normal("mlp.up_proj.weight", {F, H});
    list.normal("mlp.down_proj.weight", {H, F});
  }
  list.begin("model.", -1);
  list.norm("norm.weight", H);
}

void add_gpt2(const ModelConfig& model, ParameterList& list) {
  const int64_t H = model.hidden_size;
  const int64_t F = model.intermediate_size;
  TRIAX_CHECK(model.num_attention_heads * model.head_dim == H &&
                  model.num_key_value_heads == model.num_attention_heads,
              "gpt2 has head_dim = hidden / heads and no KV groups");
  list.begin("transformer.", -1);
  list.normal("wte.weight", {model.vocab_size, H}, ParameterRole::kEmbedding);
  list.normal("wpe.weight",
              {model.max_position_embeddings, H},
              ParameterRole::kPosition);
  for (int layer = 0; layer < model.num_hidden_layers; ++layer) {
    list.begin("transformer.h." + std::to_string(layer) + ".", layer);
    list.norm("ln_1.weight", H);
    list.bias("ln_1.bias", H);
    list.normal("attn.c_attn.weight", {H, 3 * H});
    list.bias("attn.c_attn.bias", 3 * H);
    list.residual("attn.c_proj.weight", {H, H});
    list.bias("attn.c_proj.bias", H);
    list.norm("ln_2.weight", H);
    list.bias("ln_2.bias", H);
    list.normal("mlp.c_fc.weight", {H, F});
    list.bias("mlp.c_fc.bias", F);
    list.residual("mlp.c_proj.weight", {F, H});
    list.bias("mlp.c_proj.bias", H);
  }
  list.begin("transformer.", -1);
  list.norm("ln_f.weight", H);
  list.bias("ln_f.bias", H);
}

}  // namespace

int64_t LogicalParameter::numel() const {
  int64_t product = 1;
  for (int64_t length : shape) {
    product *= length;
  }
  return product;
}

std::vector<LogicalParameter> logical_parameters(const ModelConfig& model) {
  TRIAX_CHECK(model.intermediate_size > 0 && model.num_key_value_heads > 0 &&
                  model.head_dim > 0,
              "the model is not resolved");
  ParameterList list(model);
  switch (model.family) {
    case ModelFamily::kLlama:
      add_llama(model, list);
      break;
    case ModelFamily::kGpt2:
      add_gpt2(model, list);
      break;
  }
  if (!model.tie_word_embeddings) {
    list.begin("", -1);
    list.normal("lm_head.weight",
                {model.vocab_size, model.hidden_size},
                ParameterRole::kHead);
  }
  return list.take();
}

std::string embedding_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
      return "model.embed_tokens.weight";
    case ModelFamily::kGpt2:
      return "transformer.wte.weight";
  }
  return "?";
}

}  // namespace triax
