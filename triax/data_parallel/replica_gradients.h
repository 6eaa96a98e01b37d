// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triax/data_parallel/replica_groups.h"
#include "triax/data_parallel/spilled_gradients.h"
#include "triax/plan/zero_stages.h"

namespace triax {

/// The gradients of a replica's trained parameters: where they lie while a
/// step adds them up, and their sum over the replicas.
///
/// In each step every rank of dp calls zero(), then before_backward() and
/// after_backward() around each microbatch's backward, then finish(). Then
/// owned() are sums over microbatches and replicas; whatever else the memory
/// holds is unspecified, unless gather() was called. zero() also forgets a step
/// that a backward which threw has left half done, where all ranks stopped at
/// the same place.
class ReplicaGradients {
 public:
  virtual ~ReplicaGradients() = default;

  virtual void zero() = 0;
  virtual void before_backward(bool is_last) = 0;
  virtual void after_backward() = 0;
  virtual void finish() = 0;

  /// The gradient beside a slice of this rank's shard: one dim. Only where it
  /// lies in memory.
  virtual at::Tensor owned(const ShardSlice& slice) const = 0;
  /// After finish(), wherever the shard lies: calls `body` for the slices, in
  /// their order, each in one or more parts; what it writes is kept where
  /// `is_written`. Ranks with equal slices then see equal parts, and `body` may
  /// communicate.
  virtual void visit_owned(const std::vector<ShardSlice>& slices,
                           bool is_written,
                           const VisitOwned& body);
  /// Whether buckets are reduced in every microbatch, else in the last alone.
  virtual bool reduces_each_microbatch() const = 0;
  /// What this replica adds to a bucket; only in before_reduce.
  virtual at::Tensor own(int bucket) const = 0;
  /// Spoils what was added up so far.
  virtual void multiply(double factor) = 0;

  /// After finish(): makes each parameter's grad() the whole sum until
  /// release(). Every rank must call.
  virtual void gather() = 0;
  virtual void release() = 0;

  /// Kept from step to step.
  virtual int64_t nbytes() const = 0;
  /// Of the buckets that are filled or reduced beside it.
  virtual int64_t bucket_bytes() const = 0;

  /// Called with a bucket's index just before it is reduced.
  std::function<void(int bucket)> before_reduce;
};

/// ZeRO 0 and 1 keep whole gradients; from 2 on only the shard is kept, and
/// with a file (which needs 2) it is kept there. The parameters must be
/// distinct leaves of one dtype, and the layout theirs. Of 16-bit parameters
/// the gradients are fp32. `sent_as`: the type in which replicas send them to
/// be summed, where it is another (GradientSums).
std::unique_ptr<ReplicaGradients> make_replica_gradients(
    int zero_stage,
    std::vector<at::Tensor> parameters,
    const FlatLayout& layout,
    ReplicaGroups& groups,
    std::optional<at::ScalarType> sent_as = std::nullopt,
    const GradientFile& file = {});

}  // namespace triax
