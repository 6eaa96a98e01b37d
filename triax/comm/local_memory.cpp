// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local_memory.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "triax/base/error.h"
#include "triax/base/rounding.h"

namespace triax {

namespace {

constexpr size_t kPage = 4096;

size_t members_offset() {
  return round_up(sizeof(BlockHeader), kPage);
}
size_t inputs_offset(int size) {
  return round_up(members_offset() + sizeof(MemberArea) * size_t(size), kPage);
}
size_t results_offset(int size) {
  return inputs_offset(size) + size_t(2 * size) * kChunkBytes;
}
size_t channels_offset(int size) {
  return results_offset(size) + size_t(2 * size) * (kChunkBytes / 2);
}

}  // namespace

size_t GroupBlock::nbytes(int size) {
  return round_up(
      channels_offset(size) + sizeof(Channel) * size_t(size) * size_t(size),
      kPage);
}

BlockHeader& GroupBlock::header() const {
  return *reinterpret_cast<BlockHeader*>(base_);
}

MemberArea& GroupBlock::member(int rank) const {
  return reinterpret_cast<MemberArea*>(base_ + members_offset())[rank];
}

std::byte* GroupBlock::input(int rank, int64_t phase) const {
  return base_ + inputs_offset(size_) + (2 * rank + (phase & 1)) * kChunkBytes;
}

std::byte* GroupBlock::result(int rank, int64_t phase) const {
  return base_ + results_offset(size_) +
         (2 * rank + (phase & 1)) * (kChunkBytes / 2);
}

Channel& GroupBlock::channel(int from, int to) const {
  return reinterpret_cast<Channel*>(base_ +
                                    channels_offset(size_))[from * size_ + to];
}

struct Arena::Header {
  std::atomic<uint32_t> lock;
  std::atomic<uint64_t> used;
};

namespace {

size_t arena_bytes(int world_size) {
  return std::max(GroupBlock::nbytes(world_size) * 64, size_t(16) << 30);
}

/// No process may die in here without the whole world failing.
class ArenaLock {
 public:
  explicit ArenaLock(std::atomic<uint32_t>& lock) : lock_(lock) {
    while (lock_.exchange(1, std::memory_order_acquire) != 0) {
      sched_yield();
    }
  }
  ArenaLock(const ArenaLock&) = delete;
  ~ArenaLock() { lock_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t>& lock_;
};

}  // namespace

Arena::Arena(int world_size)
    : memory_(SharedMemory::create("triax-local", arena_bytes(world_size))) {
  header().used.store(round_up(
      sizeof(Header) + sizeof(uint64_t) * size_t(world_size + 1), kPage));
}

Arena::Header& Arena::header() const {
  return *reinterpret_cast<Header*>(memory_.data());
}

std::atomic<uint64_t>& Arena::free_list(int size) const {
  return reinterpret_cast<std::atomic<uint64_t>*>(memory_.data() +
                                                  sizeof(Header))[size];
}

uint64_t Arena::take(int size) {
  ArenaLock guard(header().lock);
  std::atomic<uint64_t>& list = free_list(size);
  if (const uint64_t offset = list.load()) {
    list.store(block(offset, size).header().next_free);
    return offset;
  }
  const uint64_t offset = header().used.load();
  if (offset + GroupBlock::nbytes(size) > memory_.nbytes()) {
    throw Error("local transport: no room for one more group of ",
                size,
                " ranks; destroy groups that are no longer used");
  }
  header().used.store(offset + GroupBlock::nbytes(size));
  return offset;
}

void Arena::give_back(uint64_t offset, int size) {
  const GroupBlock old = block(offset, size);
  const uint64_t first_counter = old.header().first_counter;
  madvise(memory_.data() + offset, GroupBlock::nbytes(size), MADV_REMOVE);
  ArenaLock guard(header().lock);
  old.header().first_counter = first_counter;
  old.header().next_free = free_list(size).load();
  free_list(size).store(offset);
}

}  // namespace triax
