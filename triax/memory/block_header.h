// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/alignment.h>

#include "triax/memory/tracker.h"

namespace triax {

/// Stands before the data of a counted block, which keep their alignment. What
/// frees a block knows its data pointer alone.
struct alignas(c10::gAlignment) BlockHeader {
  MemoryTracker::Entry entry;
};
static_assert(sizeof(BlockHeader) == c10::gAlignment,
              "the data keep their alignment");

inline BlockHeader& header_of(void* data) {
  return *(static_cast<BlockHeader*>(data) - 1);
}

}  // namespace triax
