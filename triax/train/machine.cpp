// SPDX-License-Identifier: Apache-2.0
#include "triax/train/machine.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace triax {
namespace {

constexpr int64_t kMatmulSize = 512;
constexpr int kMatmulCount = 4;

}  // namespace

int64_t machine_memory_bytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  int64_t limit_bytes = 0;
  if (limit >> limit_bytes) {
    bytes = std::min(bytes, limit_bytes);
  }
  return bytes;
}

int num_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&cores));
}

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
