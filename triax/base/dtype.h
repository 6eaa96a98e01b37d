// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace triax {

/// Element types that travel between ranks and stand in plans.
enum class DType : uint8_t { kFloat64, kFloat32, kBfloat16, kFloat16, kInt64 };

constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
      return 4;
    case DType::kBfloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}

/// "fp64", "fp32", "bf16", "fp16", "int64".
constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return "fp64";
    case DType::kFloat32:
      return "fp32";
    case DType::kBfloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
    case DType::kInt64:
      return "int64";
  }
  return "?";
}

}  // namespace triax
