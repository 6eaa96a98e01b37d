// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/partial_gradients.h"

#include <algorithm>

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"
#include "triax/plan/zero_stages.h"

namespace triax {

PartialGradients::PartialGradients(const ModelConfig& config,
                                   Group& tp,
                                   bool splits_sequence)
    : tp_(tp), splits_sequence_(splits_sequence && tp.size() > 1) {
  const int kv_heads = static_cast<int>(config.num_key_value_heads);
  if (kv_heads < tp.size()) {
    TRIAX_CHECK(tp.size() % kv_heads == 0,
                tp.size(),
                " ranks share ",
                kv_heads,
                " KV heads");
    const int replicas = tp.size() / kv_heads;
    replicas_ = tp.split(tp.rank() / replicas, tp.rank(), "kv");
  }
}

bool PartialGradients::is_partial(const ParameterLayout& layout) const {
  if (layout.is_gradient_partial) {
    return true;
  }
  const auto is_replicated = [this](const Piece& piece) {
    return piece.num_replicas == tp_.size();
  };
  return splits_sequence_ &&
         std::any_of(layout.pieces.begin(), layout.pieces.end(), is_replicated);
}

void PartialGradients::sum(const at::Tensor& part,
                           const Range& elements,
                           const ParameterLayout& layout) {
  if (!is_partial(layout)) {
    return;
  }
  for (const Piece& piece : layout.pieces) {
    if (piece.num_replicas == 1) {
      continue;
    }
    // K and V are whole rows of the fused weight, and contiguous; what is
    // replicated is one piece.
    const Range mine = intersection(stored_elements(piece, layout), elements);
    if (mine.length > 0) {
      all_reduce(layout.is_gradient_partial ? *replicas_ : tp_,
                 part.narrow(0, mine.start - elements.start, mine.length));
    }
  }
}

}  // namespace triax
