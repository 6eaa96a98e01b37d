// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/tracking_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <limits>
#include <new>

#include "triax/memory/block_header.h"
#include "triax/memory/mkl_memory.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

constexpr auto kMaxBytes =
    static_cast<size_t>(std::numeric_limits<int64_t>::max()) -
    sizeof(BlockHeader);

class TrackingAllocator final : public c10::Allocator {
 public:
  explicit TrackingAllocator(c10::Allocator* inner) { inner_ = inner; }

  c10::DataPtr allocate(size_t nbytes) override {
    if (nbytes == 0 || nbytes > kMaxBytes) {
      return inner_->allocate(nbytes);
    }
    const MemoryTracker::Entry entry =
        MemoryTracker::enter(static_cast<int64_t>(nbytes));
    void* const start = take(nbytes, entry);
    void* const data = new (start) BlockHeader{entry} + 1;
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t nbytes) const override {
    default_copy_data(to, from, nbytes);
  }

 private:
  static void* take(size_t nbytes, const MemoryTracker::Entry& entry) {
    try {
      return inner_->raw_allocate(nbytes + sizeof(BlockHeader));
    } catch (const c10::Error&) {
      MemoryTracker::leave(entry);
      throw OutOfMemory({.nbytes = entry.nbytes,
                         .category = entry.category,
                         .in_use = entry.tracker->use().current,
                         .limit = 0});
    }
  }

  static void release(void* data) {
    if (data != nullptr) {
      BlockHeader& header = header_of(data);
      MemoryTracker::leave(header.entry);
      inner_->raw_deallocate(&header);
    }
  }

  static inline c10::Allocator* inner_ = nullptr;
};

}  // namespace

void install_tracking_allocator() {
  static TrackingAllocator* const allocator = [] {
    auto* made = new TrackingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made);
    count_mkl_memory();
    return made;
  }();
  static_cast<void>(allocator);
}

}  // namespace triax
