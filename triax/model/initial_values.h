// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triax/base/piece.h"
#include "triax/model/philox.h"

namespace triax {

/// out[i] = element first_element + i of the standard normal sequence of
/// `key`: two elements by Box-Muller from one Philox call. Every operation is
/// one IEEE addition, multiplication, division or root in fp64, so the bits
/// are the same on every machine.
void draw_normal(PhiloxKey key,
                 int64_t first_element,
                 double* out,
                 int64_t count);

/// Writes the initial value of every element of `piece` where it stands in
/// `stored`, in place, rounded once to its dtype.
void draw_piece(const at::Tensor& stored, const Piece& piece, uint64_t seed);

}  // namespace triax
