// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <string>
#include <vector>

namespace triax {

/// Memory under tensors that is given back and got again while the tensors,
/// their views and whatever a graph saved of them stay what they are. Without
/// memory it is an error with a text of one's own to read or write them, not a
/// crash. On a CPU, by LibTorch's allocator.
class RefillableStorage {
 public:
  /// Without memory; `why` is what a use of it is told.
  RefillableStorage(int64_t nbytes, const std::string& why);

  /// Takes over one that has memory.
  explicit RefillableStorage(c10::Storage filled);

  const c10::Storage& storage() const { return storage_; }
  /// Whether anyone else, as a tensor, holds the storage.
  bool is_used() const { return storage_.use_count() > 1; }

  /// Of the storage's elements from `start` on, contiguous.
  at::Tensor tensor(at::ScalarType dtype,
                    int64_t start,
                    at::IntArrayRef sizes) const;

  /// Gets memory of unspecified content, unless it has some. Throws what the
  /// allocator throws.
  void fill();
  /// Takes over memory of another one of as many bytes.
  void fill(c10::DataPtr memory);
  /// Gives it back; `why` is what a use of it is told.
  void free(const std::string& why) { take(why); }
  /// The same, to the caller.
  c10::DataPtr take(const std::string& why);
  bool is_filled() const { return is_filled_; }
  int64_t nbytes() const;
  /// Only while it is filled.
  std::byte* data() const;

 private:
  c10::StorageImpl& impl() const { return *storage_.unsafeGetStorageImpl(); }

  c10::Storage storage_;
  bool is_filled_ = false;
};

}  // namespace triax
