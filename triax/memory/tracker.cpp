// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/tracker.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "triax/memory/out_of_memory.h"

namespace triax {
namespace {

/// What this thread's next block belongs to.
struct ThreadContext {
  MemoryTracker* tracker = nullptr;
  int64_t forward = 0;
  MemoryCategory category = MemoryCategory::kTemporary;
};

thread_local constinit ThreadContext context;

MemoryTracker& process_memory_tracker() {
  // Never destroyed: statics of LibTorch free blocks after it would be.
  static auto* const tracker = new MemoryTracker();
  return *tracker;
}

}  // namespace

MemoryUse MemoryTracker::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void MemoryTracker::set_limit(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  limit_ = nbytes;
}

void MemoryTracker::set_shared_bytes(int64_t nbytes) {
  const std::lock_guard lock(mutex_);
  const int64_t added = nbytes - shared_bytes_;
  use_.current[MemoryCategory::kCommunication] += added;
  total_ += added;
  shared_bytes_ = nbytes;
  if (added > 0) {
    use_.peak[MemoryCategory::kCommunication] += added;
    peak_total_ += added;
  }
  note_peak(MemoryCategory::kCommunication);
}

void MemoryTracker::add_on_disk(int64_t nbytes) noexcept {
  const std::lock_guard lock(mutex_);
  use_.on_disk += nbytes;
  use_.largest_on_disk = std::max(use_.largest_on_disk, use_.on_disk);
}

void MemoryTracker::reset_peak() {
  const std::lock_guard lock(mutex_);
  use_.largest_on_disk = use_.on_disk;
  use_.largest = use_.current;
  peak_total_ = -1;
  note_peak(MemoryCategory::kTemporary);
}

MemoryTracker::Entry MemoryTracker::make_entry(int64_t nbytes) {
  Entry entry;
  entry.tracker = &this_rank_memory();
  entry.nbytes = nbytes;
  entry.forward = context.forward;
  entry.category = context.category;
  return entry;
}

MemoryTracker::Entry MemoryTracker::enter(int64_t nbytes) {
  Entry entry = make_entry(nbytes);
  const std::lock_guard lock(entry.tracker->mutex_);
  entry.tracker->refuse_above_limit(entry);
  entry.tracker->add(entry);
  return entry;
}

MemoryTracker::Entry MemoryTracker::note(int64_t nbytes) noexcept {
  Entry entry = make_entry(nbytes);
  const std::lock_guard lock(entry.tracker->mutex_);
  entry.tracker->add(entry);
  return entry;
}

void MemoryTracker::refuse_above_limit(const Entry& entry) const {
  if (limit_ > 0 && entry.nbytes > limit_ - total_) {
    throw OutOfMemory({.nbytes = entry.nbytes,
                       .category = entry.category,
                       .in_use = use_.current,
                       .limit = limit_});
  }
}

void MemoryTracker::add(Entry& entry) {
  entry.number = ++use_.num_blocks;
  use_.current[entry.category] += entry.nbytes;
  total_ += entry.nbytes;
  note_peak(entry.category);
}

void MemoryTracker::leave(const Entry& entry) noexcept {
  MemoryTracker& tracker = *entry.tracker;
  const std::lock_guard lock(tracker.mutex_);
  tracker.use_.current[entry.category] -= entry.nbytes;
  tracker.total_ -= entry.nbytes;
  // The forward pass did not keep it: if the peak saw it, as temporary.
  const bool was_temporary =
      entry.forward != 0 && entry.forward == tracker.open_forward_;
  if (was_temporary && entry.number <= tracker.peak_number_) {
    tracker.use_.peak[entry.category] -= entry.nbytes;
    tracker.use_.peak[MemoryCategory::kTemporary] += entry.nbytes;
  }
}

void MemoryTracker::note_peak(MemoryCategory grown) {
  // What of a forward pass is kept is known at its end.
  if (grown != MemoryCategory::kActivations || open_forward_ == 0) {
    use_.largest[grown] = std::max(use_.largest[grown], use_.current[grown]);
  }
  if (total_ > peak_total_) {
    peak_total_ = total_;
    peak_number_ = use_.num_blocks;
    use_.peak = use_.current;
  }
}

MemoryTracker::Forward MemoryTracker::open_forward() {
  const std::lock_guard lock(mutex_);
  const Forward forward{++num_forwards_, open_forward_};
  open_forward_ = forward.number;
  return forward;
}

void MemoryTracker::close_forward(const Forward& forward) {
  const std::lock_guard lock(mutex_);
  open_forward_ = forward.outer;
  note_peak(MemoryCategory::kActivations);
}

MemoryTracker& this_rank_memory() {
  return context.tracker != nullptr ? *context.tracker
                                    : process_memory_tracker();
}

MemoryTracker& make_memory_tracker() {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<MemoryTracker>>();
  const std::lock_guard lock(mutex);
  return *all->emplace_back(std::make_unique<MemoryTracker>());
}

RankMemoryScope::RankMemoryScope(MemoryTracker& tracker)
    : outer_(context.tracker) {
  context.tracker = &tracker;
}

RankMemoryScope::~RankMemoryScope() {
  context.tracker = outer_;
}

MemoryScope::MemoryScope(MemoryCategory category)
    : outer_category_(context.category), outer_forward_(context.forward) {
  context.category = category;
  context.forward = 0;
}

MemoryScope::~MemoryScope() {
  context.category = outer_category_;
  context.forward = outer_forward_;
}

ActivationScope::ActivationScope() : outer_category_(context.category) {
  context.category = MemoryCategory::kActivations;
  if (context.forward == 0) {
    tracker_ = &this_rank_memory();
    forward_ = tracker_->open_forward();
    context.forward = forward_.number;
  }
}

ActivationScope::~ActivationScope() {
  context.category = outer_category_;
  if (tracker_ != nullptr) {
    context.forward = 0;
    tracker_->close_forward(forward_);
  }
}

}  // namespace triax
