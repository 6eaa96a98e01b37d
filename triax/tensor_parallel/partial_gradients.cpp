// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/partial_gradients.h"

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"

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

void PartialGradients::sum(const at::Tensor& gradient,
                           const ParameterLayout& layout) {
  if (!replicas_ || !layout.is_gradient_partial) {
    return;
  }
  for (const Piece& piece : layout.pieces) {
    if (piece.num_replicas == 1) {
      continue;
    }
    // K and V are whole rows of the fused weight, and contiguous.
    const Range rows = piece.stored_rows();
    all_reduce(*replicas_, gradient.narrow(0, rows.start, rows.length));
  }
}

}  // namespace triax
