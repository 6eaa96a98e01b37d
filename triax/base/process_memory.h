// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace triax {

/// Resident memory of this process as the kernel counts it, in bytes; 0 where
/// there is no /proc. A page that processes share counts in each of them.
struct ProcessMemory {
  int64_t peak = 0;       // VmHWM
  int64_t resident = 0;   // VmRSS = the three below
  int64_t anonymous = 0;  // RssAnon: what was allocated
  int64_t files = 0;      // RssFile: the program, its libraries, read files
  int64_t shared = 0;     // RssShmem: segments between ranks
};

ProcessMemory process_memory();

}  // namespace triax
