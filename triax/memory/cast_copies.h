// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace triax {

/// Copies of some tensors in another type, as autocast makes one of each weight
/// and a graph keeps it for backward. A copy's memory is given back when copies
/// of tensors with another key are made, or come back; it comes back, cast
/// anew, when an operation uses it. So of weights that are split over ranks no
/// whole model in the cast type stays behind.
///
/// Seen are copies in a narrower type that to() makes of a whole tensor; one
/// that is changed in place keeps its memory. While one of these
/// lives, LibTorch packs the results of every operation of the process.
class CastCopies {
 public:
  /// `gather(key)` makes the tensors of that key readable; it is called within
  /// an operation, on its thread.
  explicit CastCopies(std::function<void(int key)> gather);
  ~CastCopies();
  CastCopies(const CastCopies&) = delete;
  CastCopies& operator=(const CastCopies&) = delete;

  /// Copies of the tensor are looked after; it must outlive this.
  void add(const at::Tensor& tensor, int key);

  /// The tensors change now: who uses a copy from before is told by an error.
  void expire();

  /// Throws what went wrong within an operation, once. The operation itself
  /// has thrown c10::Error instead.
  void rethrow_failure();

  /// The most that had their memory at a time.
  int64_t most_bytes() const;

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace triax
