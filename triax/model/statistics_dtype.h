// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

namespace triax {

/// The dtype in which sums are taken, over a row and of a parameter's gradient:
/// fp64 for fp64, else fp32.
inline at::ScalarType statistics_dtype(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace triax
