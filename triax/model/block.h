// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>

#include "triax/model/attention.h"
#include "triax/model/dropout.h"
#include "triax/model/feed_forward.h"
#include "triax/model/norm.h"
#include "triax/model/place.h"

namespace triax {

enum class NormKind { kRms, kLayer };

std::shared_ptr<Norm> make_norm(NormKind kind, int64_t features, double eps);

struct BlockOptions {
  AttentionOptions attention;
  FeedForwardOptions feed_forward;
  NormKind norm = NormKind::kRms;
  double norm_eps = 1e-6;
  double residual_dropout = 0.0;
};

/// One layer with its norms before it: x + attention(norm(x)), then
/// x + feed_forward(norm(x)). The residual stream [B, S, H] keeps its dtype.
class Block : public torch::nn::Module {
 public:
  explicit Block(const BlockOptions& options);

  at::Tensor forward(const at::Tensor& x, const Place& place);
  /// Backward computes norms, the activation function and the probabilities of
  /// attention with dropout again; the products' outputs are kept.
  void recompute_selectively();

  std::shared_ptr<Norm> attention_norm;
  std::shared_ptr<Attention> attention;
  std::shared_ptr<Norm> feed_forward_norm;
  std::shared_ptr<FeedForward> feed_forward;
  std::shared_ptr<Dropout> attention_dropout;     // on what attention adds
  std::shared_ptr<Dropout> feed_forward_dropout;  // on what feed_forward adds

 private:
  bool redoes_norms_ = false;
};

}  // namespace triax
