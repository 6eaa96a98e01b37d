// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/config/run_config.h"

namespace triax {

/// The published models of the cases, resolved.
inline ModelConfig llama_model(int64_t vocab_size,
                               int64_t num_layers,
                               int64_t hidden_size,
                               int64_t intermediate_size,
                               int64_t num_heads,
                               int64_t num_kv_heads) {
  ModelConfig model;
  model.family = ModelFamily::kLlama;
  model.vocab_size = vocab_size;
  model.num_hidden_layers = num_layers;
  model.hidden_size = hidden_size;
  model.intermediate_size = intermediate_size;
  model.num_attention_heads = num_heads;
  model.num_key_value_heads = num_kv_heads;
  model.head_dim = hidden_size / num_heads;
  model.norm_eps = 1e-6;
  return model;
}

inline ModelConfig gpt2_model(int64_t vocab_size,
                              int64_t num_layers,
                              int64_t hidden_size,
                              int64_t num_heads,
                              int64_t max_positions) {
  ModelConfig model = llama_model(vocab_size,
                                  num_layers,
                                  hidden_size,
                                  4 * hidden_size,
                                  num_heads,
                                  num_heads);
  model.family = ModelFamily::kGpt2;
  model.max_position_embeddings = max_positions;
  model.tie_word_embeddings = true;
  model.norm_eps = 1e-5;
  return model;
}

inline ModelConfig gpt2_small() {
  return gpt2_model(50257, 12, 768, 12, 1024);
}

}  // namespace triax
