// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "triax/comm/operation.h"
#include "triax/comm/shared_memory.h"

// How the local transport's shared memory lies: an arena of blocks, one block
// for each group. A page costs memory from its first use.

namespace triax {

/// Bytes that one rank stages in one phase of a collective, at most.
inline constexpr int64_t kChunkBytes = 128 << 10;
/// A message that is no larger never waits for its receiver.
inline constexpr int64_t kChannelBytes = 512 << 10;

/// What a rank says of its collective before others use its data.
struct alignas(64) PhaseHeader {
  OpRecord record;
  int64_t ready_ns = 0;  // link emulation: when this rank could start
};

/// One rank's part of a group's block. `progress` counts the phases that the
/// rank went through since the group began. What is written in one phase is
/// read by others in the next, and is overwritten two phases later at the
/// soonest: phase p begins only when every rank is through phase p - 1.
struct alignas(64) MemberArea {
  std::atomic<int64_t> progress{0};
  std::array<PhaseHeader, 2> headers;
};

struct alignas(64) MessageHeader {
  OpRecord record;
  int64_t ready_ns = 0;  // link emulation: when the message is through
};

/// A stream of messages from one rank to another: each a MessageHeader, then
/// the payload, padded to 64 bytes. Both counters are bytes since the start.
struct Channel {
  alignas(64) std::atomic<int64_t> written{0};
  alignas(64) std::atomic<int64_t> read{0};
  alignas(64) std::array<std::byte, kChannelBytes> bytes;
};

struct alignas(64) BlockHeader {
  std::atomic<int32_t> num_users{0};
  uint64_t first_counter = 0;  // on the Board, see CounterTable
  uint64_t next_free = 0;
};

/// The block of a group of `size` ranks at `base`.
class GroupBlock {
 public:
  GroupBlock(std::byte* base, int size) : base_(base), size_(size) {}

  static size_t nbytes(int size);

  BlockHeader& header() const;
  MemberArea& member(int rank) const;
  /// Where `rank` stages its input in phases of this parity: kChunkBytes.
  std::byte* input(int rank, int64_t phase) const;
  /// Where it puts its share of a reduced chunk: kChunkBytes / 2.
  std::byte* result(int rank, int64_t phase) const;
  Channel& channel(int from, int to) const;

 private:
  std::byte* base_;
  int size_;
};

/// How the counters of a group on the Board are numbered, from its first.
struct CounterTable {
  static uint64_t count(int size) { return uint64_t(size) * stride(size); }
  static uint64_t stride(int size) { return 1 + 2 * uint64_t(size); }
  /// Collectives that `rank` has issued.
  static uint64_t collectives(int size, int rank) {
    return uint64_t(rank) * stride(size);
  }
  static uint64_t sends(int size, int from, int to) {
    return collectives(size, from) + 1 + uint64_t(to);
  }
  static uint64_t receives(int size, int by, int from) {
    return collectives(size, by) + 1 + uint64_t(size + from);
  }
};

/// Blocks for a world's groups, taken and given back by any of its ranks.
class Arena {
 public:
  explicit Arena(int world_size);

  /// A zeroed block for a group of `size` ranks; its offset.
  uint64_t take(int size);
  /// Gives its memory back to the system at once.
  void give_back(uint64_t offset, int size);
  GroupBlock block(uint64_t offset, int size) const {
    return GroupBlock(memory_.data() + offset, size);
  }

 private:
  struct Header;
  Header& header() const;
  std::atomic<uint64_t>& free_list(int size) const;

  SharedMemory memory_;
};

}  // namespace triax
