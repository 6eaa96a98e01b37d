// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/model_part.h"
#include "triax/config/run_config.h"
#include "triax/model/block.h"
#include "triax/model/embedding.h"
#include "triax/model/linear.h"
#include "triax/model/parameter_slot.h"
#include "triax/model/place.h"

namespace triax {

/// A part of a transformer language model: GPT-2 or Llama. Names no rank.
///
/// Its parameters exist as shapes until allocate() (model/allocate.h). Paths:
/// embedding, position_embedding, blocks.{global layer index}.attention_norm |
/// attention.qkv | attention.out | feed_forward_norm | feed_forward.up |
/// feed_forward.down, final_norm, head.
class Transformer : public torch::nn::Module {
 public:
  Transformer(const ModelConfig& config, const ModelPart& part);

  /// With the embedding: ids [B, S] int64; else hidden [B, S, H]. With the
  /// head: logits [B, S, V], V being the rows of the head here; else hidden.
  at::Tensor forward(const at::Tensor& input, const Place& place);

  /// In registration order. A head tied to an embedding of the same part has
  /// no slot of its own; without the embedding it has head.weight.
  std::vector<ParameterSlot*> slots() { return collect_slots(*this); }

  /// What backward computes again instead of keeping it.
  void set_recompute(const MemoryConfig& config);

  // Null where the part, or the family, does not have it.
  std::shared_ptr<Embedding> embedding;
  std::shared_ptr<Embedding> position_embedding;
  std::shared_ptr<Dropout> embedding_dropout;
  std::vector<std::shared_ptr<Block>> blocks;  // this part's, in order
  std::shared_ptr<Norm> final_norm;
  std::shared_ptr<Linear> head;

 private:
  at::Tensor embed(const at::Tensor& ids, const Place& place);
  /// Blocks [first, last) of this part.
  at::Tensor run_blocks(const at::Tensor& input,
                        const Place& place,
                        size_t first,
                        size_t last);
  bool is_trained(size_t first, size_t last);

  int64_t group_size_ = 0;  // blocks whose input alone is kept; 0: all is
};

/// The dtype of the matrix products and of attention. bf16 over fp32 weights:
/// the residual stream, the norms and the gradients of weights stay fp32.
void set_matmul_dtype(Transformer& model, at::ScalarType dtype);

}  // namespace triax
