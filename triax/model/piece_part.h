// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "triax/base/piece.h"

namespace triax {

/// The part of a stored tensor that a piece covers, turned as the logical
/// parameter lies: a view.
at::Tensor stored_part(const at::Tensor& stored, const Piece& piece);

/// The piece's rectangle of the logical parameter: a view.
at::Tensor logical_part(const at::Tensor& logical, const Piece& piece);

}  // namespace triax
