// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triax/base/error.h"
#include "triax/memory/category.h"

namespace triax {

/// What was asked for, and what there was.
struct MemoryRequest {
  int64_t nbytes = 0;
  MemoryCategory category = MemoryCategory::kTemporary;
  MemoryBytes in_use;  // before it
  int64_t limit = 0;   // of the rank; 0: the system refused
};

/// A rank may have no more memory. Nothing was allocated, and what the rank
/// had it still has.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(const MemoryRequest& request);
  const MemoryRequest& request() const { return request_; }

 private:
  const MemoryRequest request_;
};

/// "2.0 MiB more for activations would make 65.0 MiB of memory.limit = 64.0
/// MiB; in use are parameters 20.0 MiB, activations 43.0 MiB".
std::string to_text(const MemoryRequest& request);

}  // namespace triax
