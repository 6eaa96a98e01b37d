// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "triax/memory/spilled_arrays.h"
#include "triax/plan/offload.h"
#include "triax/plan/zero_stages.h"

namespace triax {

/// The array on file in which a rank's shard of the gradients adds up, and
/// where in it the buckets' parts lie.
struct GradientFile {
  SpilledArrays* arrays = nullptr;  // must outlive its user; nullptr: memory
  int array = 0;
  SpillLayout spill = {};
};

/// A part of one of the slices that a rank owns.
using VisitOwned = std::function<void(
    size_t slice, const Range& elements, const at::Tensor& values)>;

/// A rank's shard of the gradients on file: a bucket's part is read, added to
/// and written when the bucket was reduced. Reads are started before, and
/// writes waited for later; kMaxGradientParts parts are in memory at a time.
class SpilledGradients {
 public:
  SpilledGradients(const GradientFile& file, FlatLayout layout);

  at::ScalarType dtype() const { return file_.arrays->dtype(file_.array); }
  /// All is 0: the next add() to each bucket replaces what was there.
  void zero();
  /// A part will be added to this bucket.
  void expect(int bucket);
  void add(int bucket, const at::Tensor& part);
  /// Ends what add() began.
  void settle();

  /// Copies a bucket's part from or to the file.
  at::Tensor read(int bucket);
  void write(int bucket, const at::Tensor& part);

  /// Calls `body` for the slices, in their order, each in one or more parts.
  /// Where it writes, all ranks that hold the same slices see the same parts.
  void visit(const std::vector<ShardSlice>& slices,
             bool is_written,
             const VisitOwned& body);

  /// The most that was in memory at a time.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  struct Transfer {
    int bucket = 0;
    at::Tensor memory;
    IoRequest request;  // ends before its memory
  };

  at::Tensor take_memory(int bucket);
  void let_go(Transfer& transfer);
  void wait_for_writes(int bucket);
  int64_t part_numel(int bucket) const;
  at::Tensor values_in(const at::Tensor& memory, int bucket) const;

  const GradientFile file_;
  const FlatLayout layout_;
  std::vector<bool> is_zero_;  // by bucket
  std::map<int, Transfer> reads_;
  std::deque<Transfer> writes_;
  int64_t bytes_ = 0;
  int64_t most_bytes_ = 0;
};

}  // namespace triax
