// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include "triax/base/dtype.h"

namespace triax {

/// LibTorch's name of a type.
at::ScalarType to_scalar_type(DType dtype);

}  // namespace triax
