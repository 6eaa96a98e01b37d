// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

#include "triax/model/place.h"

namespace triax {

enum class DropoutSite : uint64_t {
  kEmbedding,
  kAttention,          // the probabilities
  kAttentionResidual,  // what attention adds to the residual stream
  kFeedForwardResidual,
};

/// Which of a model's dropouts, and how much it drops.
struct DropoutOptions {
  double probability = 0.0;
  DropoutSite site = DropoutSite::kEmbedding;
  int64_t layer = 0;  // global index; 0 for the embedding's
};

/// True where an element of [B, S, H] is kept: a function of the place's seed,
/// step, sample and position, of the layer, the site and the feature.
at::Tensor hidden_keep_mask(const DropoutOptions& options,
                            const Place& place,
                            int64_t first_position,
                            at::IntArrayRef shape);

/// True where a probability of [B, heads, S, S] is kept, by sample, global
/// head, position of the query and of the key. Above the diagonal: false.
at::Tensor attention_keep_mask(const DropoutOptions& options,
                               const Place& place,
                               int64_t first_head,
                               at::IntArrayRef shape);

/// Zeros elements of the residual stream and scales the rest by 1 / (1 − p).
/// Keeps one byte an element for backward.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(const DropoutOptions& options) : options_(options) {}

  at::Tensor forward(const at::Tensor& x, const Place& place);

  /// Which of the equal parts of the sequence the residual stream holds.
  int64_t sequence_part = 0;

 private:
  const DropoutOptions options_;
};

}  // namespace triax
