// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/replica_gradients.h"

#include <utility>

#include "triax/base/error.h"
#include "triax/data_parallel/sharded_gradients.h"
#include "triax/data_parallel/whole_gradients.h"

namespace triax {

void ReplicaGradients::visit_owned(const std::vector<ShardSlice>& slices,
                                   bool /*is_written*/,
                                   const VisitOwned& body) {
  for (size_t i = 0; i < slices.size(); ++i) {
    body(i, slices[i].elements, owned(slices[i]));
  }
}

std::unique_ptr<ReplicaGradients> make_replica_gradients(
    int zero_stage,
    std::vector<at::Tensor> parameters,
    const FlatLayout& layout,
    ReplicaGroups& groups,
    std::optional<at::ScalarType> sent_as,
    const GradientFile& file) {
  const bool is_on_file = file.arrays != nullptr;
  TRIAX_CHECK(!is_on_file || zero_stage >= 2, "whole gradients on file");
  if (zero_stage < 2 || (groups.shards() == nullptr && !is_on_file)) {
    return std::make_unique<WholeGradients>(
        std::move(parameters), layout, groups, sent_as);
  }
  return std::make_unique<ShardedGradients>(
      std::move(parameters), layout, groups, sent_as, file);
}

}  // namespace triax
