// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triax/comm/group.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/data_parallel/gradient_sums.h"
#include "triax/data_parallel/replica_groups.h"

namespace triax {

/// Sums the gradients of a flat buffer over the replicas, each bucket as soon
/// as the backward pass has finished its parameters. Where the buffer's layout
/// has shards, a rank gets the sum of its own shard of each bucket; the rest
/// of the bucket is then of no use.
///
/// In each step every rank of dp calls prepare() before the last microbatch's
/// backward and finish() after it. Between prepare() and finish() a
/// parameter's gradient is final once its hook has run; parameters whose hook
/// never ran (unused ones) are reduced in finish().
class BucketReducer {
 public:
  /// Both must outlive the reducer; the groups must have the layout's shards.
  /// `sent_as`: see GradientSums.
  BucketReducer(FlatBuffer& buffer,
                ReplicaGroups& groups,
                std::optional<at::ScalarType> sent_as = std::nullopt);
  ~BucketReducer();
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  /// The next backward is the last of this step: start reducing.
  void prepare();
  /// Reduces what is left and waits for all.
  void finish();
  /// Forgets a step that was not finished; waits for what is under way.
  void abandon();

  /// Called with a bucket's index just before its reduction starts, when its
  /// gradients are this replica's own.
  std::function<void(int bucket)> before_reduce;

  /// Most bytes of narrow copies at once.
  int64_t most_bytes() const { return sums_.most_bytes(); }

 private:
  void on_gradient(int parameter);
  void start_ready();
  void start(const Bucket& bucket);
  at::Tensor shard(const Bucket& bucket) const;

  FlatBuffer& buffer_;
  ReplicaGroups& groups_;
  const std::vector<Bucket>& buckets_;
  std::vector<int> bucket_of_;
  std::vector<int> missing_;  // per bucket: gradients yet to come
  std::vector<bool> arrived_;
  size_t next_bucket_ = 0;  // buckets start in order, on every rank alike
  bool is_last_microbatch_ = false;
  GradientSums sums_;
  // Hooks outlive a reducer inside the parameters; they look here first.
  std::shared_ptr<BucketReducer*> self_;
};

}  // namespace triax
