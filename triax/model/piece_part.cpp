// SPDX-License-Identifier: Apache-2.0
#include "triax/model/piece_part.h"

namespace triax {

at::Tensor stored_part(const at::Tensor& stored, const Piece& piece) {
  at::Tensor part = stored;
  for (int64_t dim = 0; dim < stored.dim(); ++dim) {
    const int64_t logical_dim = piece.transposed ? 1 - dim : dim;
    part = part.narrow(
        dim, piece.stored_start[dim], piece.logical_range[logical_dim].length);
  }
  return piece.transposed ? part.t() : part;
}

at::Tensor logical_part(const at::Tensor& logical, const Piece& piece) {
  at::Tensor part = logical;
  for (int64_t dim = 0; dim < logical.dim(); ++dim) {
    const Range& range = piece.logical_range[dim];
    part = part.narrow(dim, range.start, range.length);
  }
  return part;
}

}  // namespace triax
