// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Loops over blocks that fit the first cache, compiled for the processor that
// they run on. `acc` and `in` do not overlap.

namespace triax::detail {

void add_f32(float* acc, const float* in, int64_t numel);
void max_f32(float* acc, const float* in, int64_t numel);
void divide_f32(float* acc, float divisor, int64_t numel);

void add_f64(double* acc, const double* in, int64_t numel);
void max_f64(double* acc, const double* in, int64_t numel);
void divide_f64(double* acc, double divisor, int64_t numel);

void add_i64(int64_t* acc, const int64_t* in, int64_t numel);
void max_i64(int64_t* acc, const int64_t* in, int64_t numel);
void divide_i64(int64_t* acc, int64_t divisor, int64_t numel);

void widen_bf16(float* out, const uint16_t* in, int64_t numel);
void narrow_bf16(uint16_t* out, const float* in, int64_t numel);
void widen_f16(float* out, const uint16_t* in, int64_t numel);
void narrow_f16(uint16_t* out, const float* in, int64_t numel);

}  // namespace triax::detail
