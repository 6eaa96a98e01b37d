// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "triax/memory/async_io.h"

struct io_uring;

namespace triax::detail {

/// The kernel takes less than 2 GiB at a time; a multiple of every alignment.
inline constexpr int64_t kMaxIoBytes = int64_t{1} << 30;

inline int64_t next_bytes(const IoTransfer& transfer) {
  return std::min(transfer.nbytes, kMaxIoBytes);
}

/// What is left after `nbytes` of it.
inline void advance(IoTransfer& transfer, int64_t nbytes) {
  transfer.offset += nbytes;
  transfer.memory += nbytes;
  transfer.nbytes -= nbytes;
}

/// io_uring_submit(), or what stands in its place.
using RingSubmit = int(io_uring* ring);

/// By io_uring; nullptr where the kernel has none, refuses it, or lacks its
/// reads and writes (before 5.6).
std::unique_ptr<AsyncIo> make_ring_io(RingSubmit* submit_entries = nullptr);

/// By threads of this process.
std::unique_ptr<AsyncIo> make_thread_io();

}  // namespace triax::detail
