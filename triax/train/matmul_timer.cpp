// SPDX-License-Identifier: Apache-2.0
#include "triax/train/matmul_timer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <chrono>
#include <cstdint>

namespace triax {
namespace {

constexpr int64_t kMatmulSize = 512;
constexpr int kMatmulCount = 4;

}  // namespace

MatmulTimer::MatmulTimer(at::ScalarType type)
    : factor_(at::ones({kMatmulSize, kMatmulSize}, type)) {}

double MatmulTimer::seconds() const {
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kMatmulCount; ++i) {
    at::mm(factor_, factor_);
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  return seconds.count();
}

double MatmulTimer::flops() const {
  return 2.0 * kMatmulCount * kMatmulSize * kMatmulSize * kMatmulSize;
}

}  // namespace triax
