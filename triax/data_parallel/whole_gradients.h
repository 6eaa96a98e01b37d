// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/data_parallel/bucket.h"
#include "triax/data_parallel/replica_gradients.h"

namespace triax {

/// Whole gradients on every rank (ZeRO 0 and 1): microbatches are added up
/// where they are computed, and the buckets reduced behind the last one.
class WholeGradients : public ReplicaGradients {
 public:
  /// `groups` must outlive this.
  WholeGradients(std::vector<at::Tensor> parameters,
                 const FlatLayout& layout,
                 ReplicaGroups& groups,
                 std::optional<at::ScalarType> sent_as = std::nullopt);

  void zero() override;
  void before_backward(bool is_last) override;
  void after_backward() override {}
  void finish() override { reducer_.finish(); }
  at::Tensor owned(const ShardSlice& slice) const override;
  bool reduces_each_microbatch() const override { return false; }
  at::Tensor own(int bucket) const override;
  void multiply(double factor) override;
  void gather() override;
  void release() override {}
  int64_t nbytes() const override { return buffer_.nbytes(); }
  int64_t bucket_bytes() const override { return reducer_.most_bytes(); }

 private:
  FlatBuffer buffer_;
  ReplicaGroups& groups_;
  BucketReducer reducer_;
};

}  // namespace triax
