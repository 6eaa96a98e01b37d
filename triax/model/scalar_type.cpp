// SPDX-License-Identifier: Apache-2.0
#include "triax/model/scalar_type.h"

#include "triax/base/error.h"

namespace triax {

at::ScalarType to_scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return at::kDouble;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kBfloat16:
      return at::kBFloat16;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kInt64:
      return at::kLong;
  }
  TRIAX_CHECK(false, "unknown dtype");
  return at::kFloat;
}

}  // namespace triax
