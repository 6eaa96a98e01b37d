// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/mkl_memory.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "triax/memory/block_header.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

void* take(size_t nbytes) noexcept {
  constexpr size_t kMost = std::numeric_limits<int64_t>::max();
  if (nbytes > kMost - 2 * sizeof(BlockHeader)) {
    return nullptr;
  }
  const size_t whole =
      (nbytes + 2 * sizeof(BlockHeader) - 1) / sizeof(BlockHeader);
  void* const start =
      std::aligned_alloc(sizeof(BlockHeader), whole * sizeof(BlockHeader));
  if (start == nullptr) {
    return nullptr;
  }
  const MemoryScope memory(MemoryCategory::kTemporary);
  return new (start)
             BlockHeader{MemoryTracker::note(static_cast<int64_t>(nbytes))} +
         1;
}

void* take_zeroed(size_t count, size_t each) noexcept {
  size_t nbytes = 0;
  if (__builtin_mul_overflow(count, each, &nbytes)) {
    return nullptr;
  }
  void* const data = take(nbytes);
  return data == nullptr ? nullptr : std::memset(data, 0, nbytes);
}

void give_back(void* data) noexcept {
  if (data != nullptr) {
    BlockHeader& header = header_of(data);
    MemoryTracker::leave(header.entry);
    std::free(&header);
  }
}

void* take_again(void* data, size_t nbytes) noexcept {
  void* const fresh = take(nbytes);
  if (data != nullptr && fresh != nullptr) {
    const auto before = static_cast<size_t>(header_of(data).entry.nbytes);
    std::memcpy(fresh, data, std::min(before, nbytes));
    give_back(data);
  }
  return fresh;
}

/// A function pointer that the library keeps under `name`.
template <class Function>
Function** find_pointer(const char* name) {
  return static_cast<Function**>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

bool count_mkl_memory() {
  auto** malloc = find_pointer<void*(size_t)>("i_malloc");
  auto** calloc = find_pointer<void*(size_t, size_t)>("i_calloc");
  auto** realloc = find_pointer<void*(void*, size_t)>("i_realloc");
  auto** free = find_pointer<void(void*)>("i_free");
  if (malloc == nullptr || calloc == nullptr || realloc == nullptr ||
      free == nullptr) {
    return false;
  }
  *malloc = take;
  *calloc = take_zeroed;
  *realloc = take_again;
  *free = give_back;
  return true;
}

}  // namespace triax
