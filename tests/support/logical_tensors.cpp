// SPDX-License-Identifier: Apache-2.0
#include "tests/support/logical_tensors.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <stdexcept>

#include "triax/model/piece_part.h"

namespace triax {

LogicalTensors assemble_values(const std::vector<ParameterSlot*>& slots) {
  LogicalTensors all;
  for (const ParameterSlot* slot : slots) {
    const at::Tensor stored = slot->tensor.detach();
    for (const Piece& piece : slot->layout.pieces) {
      at::Tensor& logical = all[piece.logical_name];
      if (!logical.defined()) {
        logical = at::full(piece.logical_shape,
                           std::numeric_limits<double>::quiet_NaN(),
                           stored.options());
      }
      const at::Tensor from = stored_part(stored, piece);
      const at::Tensor to = logical_part(logical, piece);
      if (!to.isnan().logical_or(to.eq(from)).all().item<bool>()) {
        throw std::runtime_error("copies differ: " + piece.logical_name);
      }
      to.copy_(from);
    }
  }
  return all;
}

LogicalTensors assemble_gradients(const std::vector<ParameterSlot*>& slots) {
  LogicalTensors all;
  for (const ParameterSlot* slot : slots) {
    const at::Tensor stored = slot->tensor.grad();
    for (const Piece& piece : slot->layout.pieces) {
      at::Tensor& logical = all[piece.logical_name];
      if (!logical.defined()) {
        logical = at::zeros(piece.logical_shape, stored.options());
      }
      logical_part(logical, piece).add_(stored_part(stored, piece));
    }
  }
  return all;
}

void load_values(const std::vector<ParameterSlot*>& slots,
                 const LogicalTensors& values) {
  for (const ParameterSlot* slot : slots) {
    for (const Piece& piece : slot->layout.pieces) {
      stored_part(slot->tensor.detach(), piece)
          .copy_(logical_part(values.at(piece.logical_name), piece));
    }
  }
}

}  // namespace triax
