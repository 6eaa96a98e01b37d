// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/partial_gradients.h"

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"
#include "triax/plan/zero_stages.h"

namespace triax {

PartialGradients::PartialGradients(const ModelConfig& config, Group& tp) {
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

void PartialGradients::sum(const at::Tensor& part,
                           const Range& elements,
                           const ParameterLayout& layout) {
  if (!replicas_ || !layout.is_gradient_partial) {
    return;
  }
  for (const Piece& piece : layout.pieces) {
    if (piece.num_replicas == 1) {
      continue;
    }
    // K and V are whole rows of the fused weight, and contiguous.
    const Range mine = intersection(stored_elements(piece, layout), elements);
    if (mine.length > 0) {
      all_reduce(*replicas_,
                 part.narrow(0, mine.start - elements.start, mine.length));
    }
  }
}

}  // namespace triax
