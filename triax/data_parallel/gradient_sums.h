// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "triax/comm/group.h"

namespace triax {

/// Sums of gradients over ranks that are under way, in the order in which they
/// were started. What is sent may be narrower than what is summed up here:
/// each rank's part is then rounded, the parts are added in fp32, and the sum
/// is rounded again (comm/reduce.h). The narrow copies of no more than
/// kMaxGradientBlocks sums exist at a time: a further one waits for the oldest.
class GradientSums {
 public:
  /// Sent in that type; unset: as they are.
  explicit GradientSums(std::optional<at::ScalarType> sent_as)
      : sent_as_(sent_as) {}

  // Tensors are contiguous, and must live until the sum was waited for. Every
  // rank of the group must call.

  /// In place.
  void all_reduce(Group& group, const at::Tensor& values);
  /// `mine` gets this rank's part of the sum of `whole`, and may lie in it.
  void reduce_scatter(Group& group,
                      const at::Tensor& whole,
                      const at::Tensor& mine);
  /// For all.
  void wait();
  bool empty() const { return sums_.empty(); }
  /// Most bytes of narrow copies at once.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Sum {
    at::Tensor received;  // undefined where the sum is in its place
    at::Tensor place;
    int64_t nbytes = 0;  // of the narrow copy
    Work work;           // ends first: what it writes to must still be there
  };

  at::Tensor narrow_copy(const at::Tensor& values);
  void settle_oldest();

  const std::optional<at::ScalarType> sent_as_;
  std::deque<Sum> sums_;
  int64_t bytes_ = 0;
  int64_t most_bytes_ = 0;
};

}  // namespace triax
