// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "triax/comm/group.h"

// A plain reference: one element at a time, with no code of the library.

namespace triax {

inline double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return double(float(value));
    case DType::kFloat16:
      return double(float(_Float16(float(value))));
    case DType::kBfloat16: {
      const float wide = float(value);
      if (!std::isfinite(wide)) {
        return wide;
      }
      const uint32_t bits = std::bit_cast<uint32_t>(wide) & 0xffff0000;
      const double below = std::bit_cast<float>(bits);
      const uint32_t next_bits = bits + 0x10000;
      const double above = std::bit_cast<float>(next_bits);
      const double middle = std::isfinite(above)
                                ? (below + above) / 2
                                : below * (1.0 + 0x1p-8 / 1.9921875);
      const double distance = std::abs(wide) - std::abs(middle);
      const bool is_even = (bits >> 16 & 1) == 0;
      return distance < 0 || (distance == 0 && is_even) ? below : above;
    }
    default:
      return value;
  }
}

/// An array of any dtype, read and written as doubles (int64: exact to 2^53).
class Elements {
 public:
  Elements(DType dtype, int64_t numel)
      : dtype_(dtype),
        numel_(numel),
        bytes_(size_t(numel * dtype_bytes(dtype)) + 1) {}

  DType dtype() const { return dtype_; }
  int64_t numel() const { return numel_; }

  void set(int64_t index, double value) {
    switch (dtype_) {
      case DType::kFloat64:
        return store(index, value);
      case DType::kFloat32:
        return store(index, float(value));
      case DType::kBfloat16:
        return store(
            index,
            uint16_t(std::bit_cast<uint32_t>(float(round_to(dtype_, value))) >>
                     16));
      case DType::kFloat16:
        return store(index, _Float16(float(value)));
      case DType::kInt64:
        return store(index, int64_t(value));
    }
  }
  double get(int64_t index) const {
    switch (dtype_) {
      case DType::kFloat64:
        return load<double>(index);
      case DType::kFloat32:
        return double(load<float>(index));
      case DType::kBfloat16:
        return double(
            std::bit_cast<float>(uint32_t(load<uint16_t>(index)) << 16));
      case DType::kFloat16:
        return double(float(load<_Float16>(index)));
      case DType::kInt64:
        return double(load<int64_t>(index));
    }
    return 0.0;
  }

  Buffer buffer() { return {bytes_.data(), numel_, dtype_}; }
  Buffer part(int64_t start, int64_t numel) {
    return {bytes_.data() + start * dtype_bytes(dtype_), numel, dtype_};
  }
  bool operator==(const Elements& other) const = default;

 private:
  template <class T>
  void store(int64_t index, T value) {
    std::memcpy(bytes_.data() + size_t(index) * sizeof(T), &value, sizeof(T));
  }
  template <class T>
  T load(int64_t index) const {
    T value;
    std::memcpy(&value, bytes_.data() + size_t(index) * sizeof(T), sizeof(T));
    return value;
  }

  DType dtype_;
  int64_t numel_;
  std::vector<char> bytes_;
};

/// What rank `rank` puts at `index` in the round `salt`: sums of such values
/// depend on their order in every floating-point type.
inline double sample(int rank, int64_t index, uint64_t salt, DType dtype) {
  uint64_t x = uint64_t(index) * 0x9e3779b97f4a7c15 + uint64_t(rank) * 7919 +
               salt * 104729 + 1;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 29;
  const double unit = double(x >> 11) * 0x1p-53 - 0.5;
  return dtype == DType::kInt64 ? std::floor(unit * 1e6)
                                : unit * std::exp2(double(x % 9));
}

inline Elements samples(DType dtype, int64_t numel, int rank, uint64_t salt) {
  Elements elements(dtype, numel);
  for (int64_t i = 0; i < numel; ++i) {
    elements.set(i, sample(rank, i, salt, dtype));
  }
  return elements;
}

/// The inputs' elements in rank order; 16-bit types in float, rounded once.
inline Elements reference_reduce(const std::vector<Elements>& inputs,
                                 ReduceOp op) {
  const DType dtype = inputs[0].dtype();
  Elements result(dtype, inputs[0].numel());
  const bool is_wide = dtype == DType::kFloat64 || dtype == DType::kInt64;
  const auto narrow = [&](double x) { return is_wide ? x : double(float(x)); };
  for (int64_t i = 0; i < result.numel(); ++i) {
    double value = inputs[0].get(i);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const double next = inputs[rank].get(i);
      if (op != ReduceOp::kMax) {
        value = narrow(value + next);
      } else if (!std::isnan(value) && !(value > next)) {
        value = next;
      }
    }
    if (op == ReduceOp::kAvg) {
      value = dtype == DType::kInt64 ? std::trunc(value / double(inputs.size()))
                                     : narrow(value / double(inputs.size()));
    }
    result.set(i, value);
  }
  return result;
}

inline constexpr DType kAllDTypes[] = {DType::kFloat64,
                                       DType::kFloat32,
                                       DType::kBfloat16,
                                       DType::kFloat16,
                                       DType::kInt64};
inline constexpr ReduceOp kAllReduceOps[] = {
    ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax};

}  // namespace triax
