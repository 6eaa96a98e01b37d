// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tiny_models.h"

#include <stdexcept>

#include "triax/model/allocate.h"
#include "triax/plan/sharding.h"

namespace triax {

ModelConfig tiny_llama() {
  ModelConfig config;
  config.family = ModelFamily::kLlama;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 4;
  config.vocab_size = 11;
  config.max_position_embeddings = 32;
  config.norm_eps = 1e-6;
  config.initializer_range = 0.2;
  return config;
}

ModelConfig tiny_gpt2() {
  ModelConfig config = tiny_llama();
  config.family = ModelFamily::kGpt2;
  config.intermediate_size = 64;
  config.num_key_value_heads = 4;
  config.tie_word_embeddings = true;
  config.norm_eps = 1e-5;
  return config;
}

ModelPart whole_model(const ModelConfig& config) {
  return {.first_layer = 0,
          .num_layers = static_cast<int>(config.num_hidden_layers),
          .has_embedding = true,
          .has_head = true};
}

std::shared_ptr<Transformer> make_transformer(const ModelConfig& config,
                                              const ModelPart& part,
                                              DType dtype,
                                              uint64_t seed,
                                              int tp,
                                              int tp_rank) {
  auto model = std::make_shared<Transformer>(config, part);
  set_layouts(*model, parameter_layouts(config, part, tp, tp_rank));
  allocate(*model, dtype, seed);
  return model;
}

ParameterSlot& find_slot(Transformer& model, const std::string& name) {
  for (ParameterSlot* slot : model.slots()) {
    if (slot->layout.name == name) {
      return *slot;
    }
  }
  throw std::out_of_range("no parameter " + name);
}

}  // namespace triax
