// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/replica_gradients.h"

#include <utility>

#include "triax/data_parallel/sharded_gradients.h"
#include "triax/data_parallel/whole_gradients.h"

namespace triax {

std::unique_ptr<ReplicaGradients> make_replica_gradients(
    int zero_stage,
    std::vector<at::Tensor> parameters,
    const FlatLayout& layout,
    ReplicaGroups& groups,
    std::optional<at::ScalarType> sent_as) {
  if (zero_stage < 2 || groups.shards() == nullptr) {
    return std::make_unique<WholeGradients>(
        std::move(parameters), layout, groups, sent_as);
  }
  return std::make_unique<ShardedGradients>(
      std::move(parameters), layout, groups, sent_as);
}

}  // namespace triax
