// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocated_bytes.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace triax {
namespace {

/// Passes on to the allocator that was there, and counts.
class CountingAllocator : public c10::Allocator {
 public:
  /// Stays until the process ends: tensors may outlive whoever counts.
  static CountingAllocator& installed() {
    static auto* allocator = [] {
      auto* made = new CountingAllocator;
      c10::SetCPUAllocator(made, /*priority=*/255);
      return made;
    }();
    return *allocator;
  }

  // Some of LibTorch wants the context of a block to be its data.
  c10::DataPtr allocate(size_t nbytes) override {
    void* data = inner_->raw_allocate(nbytes);
    const std::lock_guard lock(mutex_);
    sizes_[data] = static_cast<int64_t>(nbytes);
    now_ += static_cast<int64_t>(nbytes);
    peak_ = std::max(peak_, now_);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t nbytes) const override {
    inner_->copy_data(to, from, nbytes);
  }

  int64_t now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  int64_t peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    peak_ = now_;
  }

 private:
  static void release(void* data) {
    CountingAllocator& self = installed();
    {
      const std::lock_guard lock(self.mutex_);
      const auto found = self.sizes_.find(data);
      if (found != self.sizes_.end()) {
        self.now_ -= found->second;
        self.sizes_.erase(found);
      }
    }
    self.inner_->raw_deallocate(data);
  }

  c10::Allocator* const inner_ = c10::GetCPUAllocator();
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t now_ = 0;
  int64_t peak_ = 0;
};

}  // namespace

int64_t allocated_bytes() {
  return CountingAllocator::installed().now();
}

int64_t peak_allocated_bytes() {
  return CountingAllocator::installed().peak();
}

void reset_peak_allocated_bytes() {
  CountingAllocator::installed().reset_peak();
}

}  // namespace triax
