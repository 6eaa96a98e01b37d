// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "triax/comm/group.h"
#include "triax/data_parallel/replica_gradients.h"
#include "triax/data_parallel/spilled_gradients.h"

namespace triax {

/// Gradients of which a rank keeps its shard alone (ZeRO 2). In each
/// microbatch's backward a bucket gets a block of memory with its first
/// gradient; with its last one the block is reduced and scattered, added to the
/// shard and given to the next bucket. So microbatches are summed after the
/// replicas, where ReplicaGradients of whole buckets sum them before.
///
/// What is sent may be narrower: a block's narrow copy goes on its way then,
/// and the block itself to the next bucket.
///
/// Never more than two blocks, of the largest bucket's size, are held while
/// backward finishes the buckets in their order: one is filled, one reduced. A
/// gradient that comes out of order opens a block of its own. One that comes
/// again after its bucket was reduced (a weight used in several parts of the
/// graph that run backward on their own) is reduced with the next microbatch,
/// or in finish().
class ShardedGradients : public ReplicaGradients {
 public:
  /// `groups` must outlive this. With a file the shard lies there.
  ShardedGradients(std::vector<at::Tensor> parameters,
                   FlatLayout layout,
                   ReplicaGroups& groups,
                   std::optional<at::ScalarType> sent_as = std::nullopt,
                   const GradientFile& file = {});
  ~ShardedGradients() override;
  ShardedGradients(const ShardedGradients&) = delete;
  ShardedGradients& operator=(const ShardedGradients&) = delete;

  void zero() override;
  void before_backward(bool is_last) override;
  void after_backward() override;
  void finish() override;
  at::Tensor owned(const ShardSlice& slice) const override;
  void visit_owned(const std::vector<ShardSlice>& slices,
                   bool is_written,
                   const VisitOwned& body) override;
  bool reduces_each_microbatch() const override { return true; }
  at::Tensor own(int bucket) const override;
  void multiply(double factor) override;
  void gather() override;
  void release() override;
  int64_t nbytes() const override;
  int64_t bucket_bytes() const override;

  /// Most blocks that were held at once.
  int most_blocks() const { return most_blocks_; }

 private:
  /// A bucket on its way to the shard, in its block or a narrow copy of it.
  struct Reduction {
    int bucket = 0;
    at::Tensor sent;
    Work work;
  };

  void before_adding(int parameter);
  void after_adding(int parameter);
  void open(int bucket);
  void start_ready();
  void start(int bucket);
  void settle_oldest();
  void settle_all();
  void abandon_open();
  at::Tensor take_block();
  void give_back(at::Tensor block);
  at::Tensor narrow_copy(const at::Tensor& block, int bucket);
  bool has_late_gradients() const;
  void add_to_shard(int bucket, const at::Tensor& sum);
  void sum_over_replicas();
  at::Tensor part_of_shard(int bucket) const;
  at::Tensor in_bucket(const at::Tensor& block, int bucket) const;
  void set_gradients(int bucket, const at::Tensor& block);
  void unset_gradients(int bucket);

  const std::vector<at::Tensor> parameters_;
  const FlatLayout layout_;
  ReplicaGroups& groups_;
  const std::optional<at::ScalarType> sent_as_;
  const bool sends_copies_;  // of buckets, between shards
  at::Tensor shard_;         // undefined where it lies on file
  std::unique_ptr<SpilledGradients> on_file_;
  std::vector<int> bucket_of_;
  std::vector<at::Tensor> open_;  // by bucket; undefined where it is not
  std::vector<bool> is_late_;     // by bucket: opened again after its reduction
  std::vector<at::Tensor> free_;
  std::deque<Reduction> reductions_;  // started, in order
  int num_blocks_ = 0;
  int most_blocks_ = 0;
  int most_copies_ = 0;
  // Of the backward that is under way.
  bool is_running_ = false;
  std::vector<int> missing_;  // by bucket: gradients yet to come
  std::vector<bool> arrived_;
  size_t next_bucket_ = 0;  // buckets start in order, on every rank alike
  // Hooks outlive this inside the parameters; they look here first.
  std::shared_ptr<ShardedGradients*> self_;
};

}  // namespace triax
