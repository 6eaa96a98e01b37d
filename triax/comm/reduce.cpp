// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/reduce.h"

#include <algorithm>
#include <cstring>

#include "triax/comm/reduce_kernels.h"

namespace triax {

namespace {

using namespace detail;

constexpr int64_t kBlock = 1024;

struct Float32 {
  using Stored = float;
  using Computed = float;
  static void load(float* acc, const float* in, int64_t numel) {
    std::memcpy(acc, in, size_t(numel) * sizeof(float));
  }
  static void add(float* acc, const float* in, int64_t numel) {
    add_f32(acc, in, numel);
  }
  static void max(float* acc, const float* in, int64_t numel) {
    max_f32(acc, in, numel);
  }
  static void divide(float* acc, int divisor, int64_t numel) {
    divide_f32(acc, float(divisor), numel);
  }
  static void store(float* out, const float* acc, int64_t numel) {
    std::memcpy(out, acc, size_t(numel) * sizeof(float));
  }
};

struct Float64 {
  using Stored = double;
  using Computed = double;
  static void load(double* acc, const double* in, int64_t numel) {
    std::memcpy(acc, in, size_t(numel) * sizeof(double));
  }
  static void add(double* acc, const double* in, int64_t numel) {
    add_f64(acc, in, numel);
  }
  static void max(double* acc, const double* in, int64_t numel) {
    max_f64(acc, in, numel);
  }
  static void divide(double* acc, int divisor, int64_t numel) {
    divide_f64(acc, divisor, numel);
  }
  static void store(double* out, const double* acc, int64_t numel) {
    std::memcpy(out, acc, size_t(numel) * sizeof(double));
  }
};

struct Int64 {
  using Stored = int64_t;
  using Computed = int64_t;
  static void load(int64_t* acc, const int64_t* in, int64_t numel) {
    std::memcpy(acc, in, size_t(numel) * sizeof(int64_t));
  }
  static void add(int64_t* acc, const int64_t* in, int64_t numel) {
    add_i64(acc, in, numel);
  }
  static void max(int64_t* acc, const int64_t* in, int64_t numel) {
    max_i64(acc, in, numel);
  }
  static void divide(int64_t* acc, int divisor, int64_t numel) {
    divide_i64(acc, divisor, numel);
  }
  static void store(int64_t* out, const int64_t* acc, int64_t numel) {
    std::memcpy(out, acc, size_t(numel) * sizeof(int64_t));
  }
};

template <void (*kWiden)(float*, const uint16_t*, int64_t),
          void (*kNarrow)(uint16_t*, const float*, int64_t)>
struct SixteenBits {
  using Stored = uint16_t;
  using Computed = float;
  static void load(float* acc, const uint16_t* in, int64_t numel) {
    kWiden(acc, in, numel);
  }
  static void add(float* acc, const uint16_t* in, int64_t numel) {
    alignas(64) float wide[kBlock];
    kWiden(wide, in, numel);
    add_f32(acc, wide, numel);
  }
  static void max(float* acc, const uint16_t* in, int64_t numel) {
    alignas(64) float wide[kBlock];
    kWiden(wide, in, numel);
    max_f32(acc, wide, numel);
  }
  static void divide(float* acc, int divisor, int64_t numel) {
    divide_f32(acc, float(divisor), numel);
  }
  static void store(uint16_t* out, const float* acc, int64_t numel) {
    kNarrow(out, acc, numel);
  }
};
using Bfloat16 = SixteenBits<widen_bf16, narrow_bf16>;
using Float16 = SixteenBits<widen_f16, narrow_f16>;

template <class Type>
void reduce_as(const void* const* inputs,
               int num_inputs,
               int64_t numel,
               ReduceOp op,
               void* out,
               void* copy) {
  using Stored = typename Type::Stored;
  alignas(64) typename Type::Computed acc[kBlock];
  for (int64_t start = 0; start < numel; start += kBlock) {
    const int64_t count = std::min(kBlock, numel - start);
    Type::load(acc, static_cast<const Stored*>(inputs[0]) + start, count);
    for (int i = 1; i < num_inputs; ++i) {
      const Stored* in = static_cast<const Stored*>(inputs[i]) + start;
      op == ReduceOp::kMax ? Type::max(acc, in, count)
                           : Type::add(acc, in, count);
    }
    if (op == ReduceOp::kAvg) {
      Type::divide(acc, num_inputs, count);
    }
    Type::store(static_cast<Stored*>(out) + start, acc, count);
    if (copy != nullptr) {
      Type::store(static_cast<Stored*>(copy) + start, acc, count);
    }
  }
}

}  // namespace

void reduce(const void* const* inputs,
            int num_inputs,
            int64_t numel,
            DType dtype,
            ReduceOp op,
            void* out,
            void* copy) {
  switch (dtype) {
    case DType::kFloat64:
      return reduce_as<Float64>(inputs, num_inputs, numel, op, out, copy);
    case DType::kFloat32:
      return reduce_as<Float32>(inputs, num_inputs, numel, op, out, copy);
    case DType::kBfloat16:
      return reduce_as<Bfloat16>(inputs, num_inputs, numel, op, out, copy);
    case DType::kFloat16:
      return reduce_as<Float16>(inputs, num_inputs, numel, op, out, copy);
    case DType::kInt64:
      return reduce_as<Int64>(inputs, num_inputs, numel, op, out, copy);
  }
}

}  // namespace triax
