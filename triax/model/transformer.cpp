// SPDX-License-Identifier: Apache-2.0
#include "triax/model/transformer.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <string>

#include "triax/base/error.h"
#include "triax/memory/recompute.h"

namespace triax {
namespace {

int64_t or_default(int64_t value, int64_t otherwise) {
  return value != 0 ? value : otherwise;
}

/// What both families have in common; a family then states its differences.
BlockOptions common_options(const ModelConfig& config) {
  const int64_t heads = config.num_attention_heads;
  BlockOptions options;
  options.attention = {
      .hidden_size = config.hidden_size,
      .num_heads = heads,
      .num_key_value_heads = or_default(config.num_key_value_heads, heads),
      .head_dim = or_default(config.head_dim, config.hidden_size / heads),
      .dropout = config.attn_pdrop};
  options.feed_forward = {
      .hidden_size = config.hidden_size,
      .intermediate_size =
          or_default(config.intermediate_size, 4 * config.hidden_size)};
  options.residual_dropout = config.resid_pdrop;
  return options;
}

BlockOptions llama_options(const ModelConfig& config) {
  BlockOptions options = common_options(config);
  options.attention.rotary = std::make_shared<Rotary>(
      options.attention.head_dim, config.rope_theta, config.rope_scaling);
  options.feed_forward.activation = Activation::kSwiGlu;
  options.norm = NormKind::kRms;
  options.norm_eps = config.norm_eps != 0.0 ? config.norm_eps : 1e-6;
  return options;
}

BlockOptions gpt2_options(const ModelConfig& config) {
  BlockOptions options = common_options(config);
  options.attention.has_bias = true;
  options.feed_forward.has_bias = true;
  options.feed_forward.activation = Activation::kGeluTanh;
  options.norm = NormKind::kLayer;
  options.norm_eps = config.norm_eps != 0.0 ? config.norm_eps : 1e-5;
  return options;
}

bool has_learned_positions(const ModelConfig& config) {
  return config.family == ModelFamily::kGpt2;
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, const ModelPart& part) {
  BlockOptions options = config.family == ModelFamily::kGpt2
                             ? gpt2_options(config)
                             : llama_options(config);
  if (part.has_embedding) {
    embedding = register_module(
        "embedding",
        std::make_shared<Embedding>(EmbeddingOptions{
            .num_ids = config.vocab_size, .features = config.hidden_size}));
    if (has_learned_positions(config)) {
      position_embedding =
          register_module("position_embedding",
                          std::make_shared<Embedding>(EmbeddingOptions{
                              .num_ids = config.max_position_embeddings,
                              .features = config.hidden_size,
                              .role = ParameterRole::kPosition}));
    }
    embedding_dropout =
        register_module("embedding_dropout",
                        std::make_shared<Dropout>(
                            DropoutOptions{.probability = config.embd_pdrop,
                                           .site = DropoutSite::kEmbedding}));
  }
  auto layers =
      register_module("blocks", std::make_shared<torch::nn::Module>("blocks"));
  for (int i = 0; i < part.num_layers; ++i) {
    options.attention.layer = part.first_layer + i;
    blocks.push_back(
        layers->register_module(std::to_string(options.attention.layer),
                                std::make_shared<Block>(options)));
  }
  if (part.has_head) {
    final_norm = register_module(
        "final_norm",
        make_norm(options.norm, config.hidden_size, options.norm_eps));
    const bool shares = config.tie_word_embeddings && part.has_embedding;
    head = register_module("head",
                           shares ? std::make_shared<Linear>(embedding->weight)
                                  : std::make_shared<Linear>(LinearOptions{
                                        .in_features = config.hidden_size,
                                        .out_features = config.vocab_size,
                                        .role = ParameterRole::kHead}));
  }
  name_slots(*this);
}

at::Tensor Transformer::embed(const at::Tensor& ids, const Place& place) {
  TRIAX_CHECK(ids.dim() == 2 && ids.scalar_type() == at::kLong,
              "ids are [B, S] int64");
  at::Tensor hidden = embedding->forward(ids);
  if (position_embedding) {
    // `hidden` may hold only a part of the sequence.
    const int64_t first = place.first_position +
                          embedding_dropout->sequence_part * hidden.size(1);
    const at::Tensor positions =
        at::arange(first, first + hidden.size(1), at::kLong);
    hidden =
        at::add(hidden, position_embedding->forward(positions.unsqueeze(0)));
  }
  return embedding_dropout->forward(hidden, place);
}

at::Tensor Transformer::forward(const at::Tensor& input, const Place& place) {
  at::Tensor hidden = embedding ? embed(input, place) : input;
  TRIAX_CHECK(hidden.dim() == 3, "hidden is [B, S, H]");
  const size_t group =
      group_size_ == 0 ? blocks.size() : static_cast<size_t>(group_size_);
  for (size_t first = 0; first < blocks.size(); first += group) {
    const size_t last = std::min(first + group, blocks.size());
    const auto segment = [this, place, first, last](const at::Tensor& x) {
      return run_blocks(x, place, first, last);
    };
    hidden = group_size_ == 0
                 ? segment(hidden)
                 : recompute(hidden, segment, is_trained(first, last));
  }
  return head ? head->forward(final_norm->forward(hidden)) : hidden;
}

at::Tensor Transformer::run_blocks(const at::Tensor& input,
                                   const Place& place,
                                   size_t first,
                                   size_t last) {
  at::Tensor hidden = input;
  for (size_t i = first; i < last; ++i) {
    hidden = blocks[i]->forward(hidden, place);
  }
  return hidden;
}

bool Transformer::is_trained(size_t first, size_t last) {
  for (size_t i = first; i < last; ++i) {
    for (const ParameterSlot* slot : collect_slots(*blocks[i])) {
      if (slot->tensor.requires_grad()) {
        return true;
      }
    }
  }
  return false;
}

void Transformer::set_recompute(const MemoryConfig& config) {
  group_size_ = config.layers_of_a_kept_input();
  if (config.recompute == Recompute::kSelective) {
    for (const auto& block : blocks) {
      block->recompute_selectively();
    }
  }
}

void set_matmul_dtype(Transformer& model, at::ScalarType dtype) {
  model.apply([dtype](torch::nn::Module& module) {
    if (auto* linear = dynamic_cast<Linear*>(&module)) {
      linear->matmul_dtype = dtype;
    }
  });
}

}  // namespace triax
