// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triax {

/// This process's peak resident memory (VmHWM), shared pages counted.
int64_t peak_memory_bytes();
/// Memory of this machine (or of its cgroup, where that is less), in bytes.
int64_t machine_memory_bytes();
/// Cores that this process may run on.
int num_cores();

/// FLOP/s of this process's threads, from matrix products of 512 × 512 in
/// `type`: the best of several short runs, some 50 ms in all. Ranks that share
/// cores should measure at the same time.
double measure_matmul_flops(at::ScalarType type);

}  // namespace triax
