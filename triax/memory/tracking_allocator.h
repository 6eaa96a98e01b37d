// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triax {

/// Puts an allocator around LibTorch's own for host memory that enters each
/// block, kernels' scratch too, into this_rank_memory(), and counts MKL's
/// (mkl_memory.h): for the whole process and for good. Call before LibTorch's
/// first operation, and before a fork: oneDNN frees scratch through the
/// allocator of the day, whoever made it. Once is enough, more does nothing.
///
/// What the system refuses becomes an OutOfMemory, as what the limit refuses.
/// A block takes 64 bytes more than without. It and its release take 13 to 25
/// ns more, 0.02 % of a step of small tensors
/// (bench/torch/allocator_bench.cpp).
void install_tracking_allocator();

}  // namespace triax
