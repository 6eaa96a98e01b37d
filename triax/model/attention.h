// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>

#include "triax/model/attention_core.h"
#include "triax/model/dropout.h"
#include "triax/model/linear.h"
#include "triax/model/place.h"
#include "triax/model/rotary.h"

namespace triax {

struct AttentionOptions {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  bool has_bias = false;
  double dropout = 0.0;
  int64_t layer = 0;  // global index
  std::shared_ptr<Rotary> rotary =
      nullptr;  // null: positions are learned elsewhere
};

/// Causal self-attention, [B, S, H] → [B, S, H]. The rows of `qkv` are the
/// query heads, the key heads and the value heads. How many there are follows
/// from the stored shapes of `qkv` and `out`, so fewer may be here.
class Attention : public torch::nn::Module {
 public:
  explicit Attention(const AttentionOptions& options);

  /// `redo` gives x again in backward.
  at::Tensor forward(const at::Tensor& x,
                     const Place& place,
                     const Redo& redo = {});
  HeadCounts heads() const;

  std::shared_ptr<Linear> qkv;
  std::shared_ptr<Linear> out;
  /// The global index of the first query head here.
  int64_t first_head = 0;
  /// Backward computes the probabilities again, where dropout needs them.
  bool redoes_probabilities = false;

 private:
  at::Tensor attend_dropping(const at::Tensor& rows,
                             const HeadCounts& counts,
                             const Place& place) const;

  const int64_t head_dim_;
  const DropoutOptions dropout_;
  const std::shared_ptr<Rotary> rotary_;
};

}  // namespace triax
