// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include "triax/memory/category.h"

namespace triax {

struct MemoryUse {
  MemoryBytes current;
  /// What the largest total was made of.
  MemoryBytes peak;
  /// The most that each category ever had; not all at one time.
  MemoryBytes largest;
  /// Bytes that lie in files instead, now and at the most.
  int64_t on_disk = 0;
  int64_t largest_on_disk = 0;
  /// Allocated so far, freed ones too.
  int64_t num_blocks = 0;
};

/// One rank's account of what the allocator gave it (tracking_allocator.h),
/// and of its shared memory. Any thread may call. A block belongs to the rank
/// whose thread asked for it and to the category of the scopes it was in:
///   - in a MemoryScope: that one's;
///   - in an ActivationScope: activations, unless it is freed before the
///     scope's end. Then it was temporary, and so it is counted in a peak that
///     lies within the scope; `current` calls it activations until it is freed;
///   - elsewhere, as in backward and in the optimizer's step: temporary.
/// Bytes are those that were asked for, without the allocator's own.
class MemoryTracker {
 public:
  MemoryTracker() = default;
  MemoryTracker(const MemoryTracker&) = delete;
  MemoryTracker& operator=(const MemoryTracker&) = delete;

  MemoryUse use() const;
  /// From here on what makes the total larger than `nbytes` throws OutOfMemory
  /// where it is asked for; 0: no limit.
  void set_limit(int64_t nbytes);
  /// Shared memory counts as communication; what was set before is replaced.
  /// More than before is taken to have been there at the peak. It is not
  /// refused: the next block is.
  void set_shared_bytes(int64_t nbytes);
  /// So many bytes moved to a file; negative: are no longer in it.
  void add_on_disk(int64_t nbytes) noexcept;
  /// The peaks begin anew with what is there.
  void reset_peak();

  /// A block in the account.
  struct Entry {
    MemoryTracker* tracker = nullptr;
    int64_t nbytes = 0;
    int64_t number = 0;   // in the order of all blocks of the tracker
    int64_t forward = 0;  // the ActivationScope; 0: none
    MemoryCategory category = MemoryCategory::kTemporary;
  };
  /// Adds a block of this thread's rank; throws OutOfMemory at the limit.
  static Entry enter(int64_t nbytes);
  /// The same for a block that is there already: no limit refuses it.
  static Entry note(int64_t nbytes) noexcept;
  static void leave(const Entry& entry) noexcept;

 private:
  friend class ActivationScope;

  struct Forward {
    int64_t number = 0;
    int64_t outer = 0;  // what was open before
  };

  static Entry make_entry(int64_t nbytes);
  void refuse_above_limit(const Entry& entry) const;
  void add(Entry& entry);
  void note_peak(MemoryCategory grown);
  Forward open_forward();
  void close_forward(const Forward& forward);

  mutable std::mutex mutex_;
  MemoryUse use_;
  int64_t total_ = 0;
  int64_t shared_bytes_ = 0;
  int64_t limit_ = 0;
  int64_t peak_total_ = 0;
  int64_t peak_number_ = 0;  // the last block before the peak
  int64_t num_forwards_ = 0;
  int64_t open_forward_ = 0;
};

/// The tracker of this thread's rank: the process' own unless a
/// RankMemoryScope says otherwise.
MemoryTracker& this_rank_memory();

/// A tracker that lives as long as the process, since blocks may outlive the
/// rank. For ranks that are threads.
MemoryTracker& make_memory_tracker();

/// In it, this thread is another rank: one thread for each in tests.
class RankMemoryScope {
 public:
  explicit RankMemoryScope(MemoryTracker& tracker);
  ~RankMemoryScope();
  RankMemoryScope(const RankMemoryScope&) = delete;
  RankMemoryScope& operator=(const RankMemoryScope&) = delete;

 private:
  MemoryTracker* const outer_;
};

/// What this thread allocates in it is of one category.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  const MemoryCategory outer_category_;
  const int64_t outer_forward_;
};

/// A forward pass: what this thread allocates in it and still has at its end
/// is activations. One inside another is part of it; one inside a backward
/// pass, for what is computed again, is its own.
class ActivationScope {
 public:
  ActivationScope();
  ~ActivationScope();
  ActivationScope(const ActivationScope&) = delete;
  ActivationScope& operator=(const ActivationScope&) = delete;

 private:
  const MemoryCategory outer_category_;
  MemoryTracker* tracker_ = nullptr;  // of the outermost alone
  MemoryTracker::Forward forward_;
};

}  // namespace triax
