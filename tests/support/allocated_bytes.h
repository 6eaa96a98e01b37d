// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triax {

/// Bytes that LibTorch's CPU allocator has handed out and not got back, of all
/// threads. From the first use on every allocation of the process is counted;
/// what is older is not.
int64_t allocated_bytes();

/// The most since the last reset.
int64_t peak_allocated_bytes();
/// The peak is what is allocated now.
void reset_peak_allocated_bytes();

}  // namespace triax
