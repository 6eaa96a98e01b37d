// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/out_of_memory.h"

#include "triax/base/units.h"

namespace triax {

OutOfMemory::OutOfMemory(const MemoryRequest& request)
    : Error("out of memory: ", to_text(request)), request_(request) {}

std::string to_text(const MemoryRequest& request) {
  const std::string asked = format_bytes(request.nbytes) + " more for " +
                            std::string(memory_category_name(request.category));
  const std::string in_use = "; in use are " + to_text(request.in_use);
  if (request.limit == 0) {
    return "the system has no " + asked + in_use;
  }
  return asked + " would make " +
         format_bytes(request.in_use.total() + request.nbytes) +
         " of memory.limit = " + format_bytes(request.limit) + in_use;
}

}  // namespace triax
