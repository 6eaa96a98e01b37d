// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "triax/base/exact_sum.h"
#include "triax/base/piece.h"

namespace triax {

/// The sum of squares of a contiguous fp32 or fp64 tensor: over blocks of 64
/// elements in fp64, whose sums are added exactly. The same bits however often
/// it is computed.
double sum_of_squares(const at::Tensor& tensor);

/// Adds the squares of those elements of a stored gradient that this rank
/// counts: pieces of which it holds the first replica. Padding has zero
/// gradients. `part` holds `elements` of the flattened gradient, which begin
/// at a multiple of 64. Blocks are counted from the whole gradient's start and
/// are added exactly, so the parts together add the same as the whole.
/// The square root of the sum over tp and pp ranks is the global norm: each
/// logical element is counted once, and a norm is never averaged.
void add_owned_squares(ExactSum& sum,
                       const at::Tensor& part,
                       const Range& elements,
                       const ParameterLayout& layout);

/// What gradients are multiplied with so that their norm is at most
/// `max_norm` (0: never clip): min(1, max_norm / norm), as in Pascanu et al.
/// 2013, section 3.2. NaN where the norm is not finite.
double clip_factor(double norm, double max_norm);

}  // namespace triax
