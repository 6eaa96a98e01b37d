// SPDX-License-Identifier: Apache-2.0
#include "triax/model/block.h"

#include <ATen/ops/add.h>

namespace triax {

std::shared_ptr<Norm> make_norm(NormKind kind, int64_t features, double eps) {
  if (kind == NormKind::kRms) {
    return std::make_shared<RmsNorm>(features, eps);
  }
  return std::make_shared<LayerNorm>(features, eps);
}

Block::Block(const BlockOptions& options) {
  const auto norm = [&] {
    return make_norm(
        options.norm, options.attention.hidden_size, options.norm_eps);
  };
  const auto dropout = [&](DropoutSite site) {
    return std::make_shared<Dropout>(
        DropoutOptions{.probability = options.residual_dropout,
                       .site = site,
                       .layer = options.attention.layer});
  };
  attention_norm = register_module("attention_norm", norm());
  attention = register_module("attention",
                              std::make_shared<Attention>(options.attention));
  attention_dropout = register_module("attention_dropout",
                                      dropout(DropoutSite::kAttentionResidual));
  feed_forward_norm = register_module("feed_forward_norm", norm());
  feed_forward = register_module(
      "feed_forward", std::make_shared<FeedForward>(options.feed_forward));
  feed_forward_dropout = register_module(
      "feed_forward_dropout", dropout(DropoutSite::kFeedForwardResidual));
}

void Block::recompute_selectively() {
  redoes_norms_ = true;
  attention->redoes_probabilities = true;
  feed_forward->redoes_activation = true;
}

at::Tensor Block::forward(const at::Tensor& x, const Place& place) {
  const auto redo = [this](const at::Tensor& kept,
                           const std::shared_ptr<Norm>& norm) {
    return redoes_norms_ ? Redo{kept,
                                [norm](const at::Tensor& input) {
                                  return norm->forward(input);
                                }}
                         : Redo{};
  };
  const at::Tensor attended = attention->forward(
      attention_norm->forward(x), place, redo(x, attention_norm));
  const at::Tensor middle =
      at::add(x, attention_dropout->forward(attended, place));
  const at::Tensor fed = feed_forward->forward(
      feed_forward_norm->forward(middle), redo(middle, feed_forward_norm));
  return at::add(middle, feed_forward_dropout->forward(fed, place));
}

}  // namespace triax
