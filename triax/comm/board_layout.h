// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "triax/comm/recorder.h"
#include "triax/comm/shared_memory.h"

// How the Board lies in memory. Every field is an atomic: writers may die at
// any instruction, and readers in other processes never wait for them.

namespace triax {

/// A text that is cut where it is too long.
template <size_t kCapacity>
struct SharedText {
  std::atomic<uint32_t> length{0};
  std::array<std::atomic<char>, kCapacity> chars{};

  void store(std::string_view text) {
    const size_t count = std::min(text.size(), kCapacity);
    for (size_t i = 0; i < count; ++i) {
      chars[i].store(text[i], std::memory_order_relaxed);
    }
    length.store(uint32_t(count), std::memory_order_release);
  }
  std::string load() const {
    const size_t count =
        std::min<size_t>(length.load(std::memory_order_acquire), kCapacity);
    std::string text(count, ' ');
    for (size_t i = 0; i < count; ++i) {
      text[i] = chars[i].load(std::memory_order_relaxed);
    }
    return text;
  }
};

/// One event. `ticket` is its index + 1 once the rest is written.
struct alignas(64) StoredEvent {
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> step{0};
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> start_ns{0};
  std::atomic<int64_t> end_ns{0};
  std::atomic<int32_t> microbatch{0};
  std::atomic<int32_t> stage{0};
  std::atomic<int32_t> group{0};
  std::atomic<uint8_t> kind{0};
};
static_assert(sizeof(StoredEvent) == 64);

struct EventRing {
  alignas(64) std::atomic<uint64_t> num_started{0};
  std::array<StoredEvent, kEventCapacity> events;
};

/// The operation that the rank is in, or was in last. `epoch` is odd while it
/// is being written.
struct alignas(64) StoredStatus {
  std::atomic<uint64_t> epoch{0};
  std::atomic<int64_t> since_ns{0};
  std::atomic<bool> is_inside{false};
  std::atomic<bool> has_record{false};
  std::atomic<OpKind> op{};
  std::atomic<DType> dtype{};
  std::atomic<ReduceOp> reduce_op{};
  std::atomic<int32_t> peer{0};
  std::atomic<int32_t> peer_world{0};
  std::atomic<int32_t> name{0};
  std::atomic<uint32_t> site{0};
  std::atomic<uint64_t> group{0};
  std::atomic<int64_t> number{0};
  std::atomic<int64_t> numel{0};
  // For whom it waits: valid where edge_epoch equals epoch. edge_version is
  // odd while it is being written.
  std::atomic<uint64_t> edge_version{0};
  std::atomic<uint64_t> edge_epoch{0};
  std::atomic<int32_t> edge_peer{0};
  std::atomic<uint64_t> edge_counter{0};
  std::atomic<uint64_t> edge_target{0};
};

struct alignas(64) RankArea {
  Bell bell;
  StoredStatus status;
  std::atomic<int32_t> pid{0};
  std::atomic<int64_t> step{-1};
  std::atomic<bool> is_finished{false};
  std::atomic<uint32_t> error_state{0};  // 0 none, 1 being written, 2 written
  SharedText<128> coord;
  SharedText<4000> error;
  EventRing events;
};

struct BoardHeader {
  static constexpr uint64_t kMagic = 0x7472696178626431;  // "triaxbd1"
  static constexpr uint32_t kMaxNames = 256;
  static constexpr uint32_t kMaxSites = 4096;

  std::atomic<uint64_t> magic{0};
  std::atomic<int32_t> world_size{0};
  std::atomic<int32_t> first_failed{-1};
  std::atomic<uint64_t> num_counters{0};
  std::atomic<uint32_t> lock{0};
  std::atomic<uint32_t> num_names{0};
  std::atomic<uint32_t> num_sites{0};
  std::array<SharedText<40>, kMaxNames> names;
  std::array<SharedText<60>, kMaxSites> sites;
};

struct Board::Layout {
  static constexpr uint64_t kMaxCounters = uint64_t(1) << 27;

  SharedMemory memory;

  static size_t nbytes(int world_size) {
    return counters_offset(world_size) + kMaxCounters * 8;
  }
  static size_t header_bytes() {
    return (sizeof(BoardHeader) + 4095) / 4096 * 4096;
  }
  static size_t counters_offset(int world_size) {
    return header_bytes() + sizeof(RankArea) * size_t(world_size);
  }

  BoardHeader& header() const {
    return *reinterpret_cast<BoardHeader*>(memory.data());
  }
  RankArea& rank(int rank) const {
    return reinterpret_cast<RankArea*>(memory.data() + header_bytes())[rank];
  }
  std::atomic<uint64_t>& counter(uint64_t index) const {
    return reinterpret_cast<std::atomic<uint64_t>*>(
        memory.data() + counters_offset(header().world_size.load()))[index];
  }
};

}  // namespace triax
