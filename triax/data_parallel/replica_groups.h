// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triax/comm/group.h"

namespace triax {

/// The replicas of a rank's part of the model, and who of them shares what
/// ZeRO splits: neighbours hold one shard each, and replicas of these hold the
/// same shard. A gradient is summed over the former first.
///
///   dp 4, 2 shards:   shards {0, 1} {2, 3}   replicas {0, 2} {1, 3}
class ReplicaGroups {
 public:
  /// Every rank of `dp`, which must outlive this, must call. `num_shards` must
  /// divide dp.size(); 1: everybody holds everything.
  explicit ReplicaGroups(Group& dp, int num_shards = 1);

  Group& dp() { return dp_; }
  /// Ranks with a shard each; nullptr where there is one shard.
  Group* shards() const { return shards_; }
  /// Ranks with equal shards; nullptr where this rank is the only one.
  Group* replicas() const { return replicas_; }
  int shard() const { return shards_ == nullptr ? 0 : shards_->rank(); }
  /// Of the ranks with equal shards: one speaks for all.
  bool is_first_replica() const {
    return replicas_ == nullptr || replicas_->rank() == 0;
  }

 private:
  Group& dp_;
  std::unique_ptr<Group> own_shards_;
  std::unique_ptr<Group> own_replicas_;
  Group* shards_ = nullptr;
  Group* replicas_ = nullptr;
};

}  // namespace triax
