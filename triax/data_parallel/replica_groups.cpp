// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/replica_groups.h"

#include "triax/base/error.h"

namespace triax {

ReplicaGroups::ReplicaGroups(Group& dp, int num_shards) : dp_(dp) {
  TRIAX_CHECK(num_shards >= 1 && dp.size() % num_shards == 0,
              num_shards,
              " shards of ",
              dp.size(),
              " replicas");
  if (num_shards == dp.size()) {
    shards_ = num_shards > 1 ? &dp_ : nullptr;
    return;
  }
  if (num_shards == 1) {
    replicas_ = &dp_;
    return;
  }
  own_shards_ = dp.split(dp.rank() / num_shards, dp.rank(), "zero");
  own_replicas_ = dp.split(dp.rank() % num_shards, dp.rank(), "replicas");
  shards_ = own_shards_.get();
  replicas_ = own_replicas_.get();
}

}  // namespace triax
