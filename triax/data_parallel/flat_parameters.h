// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triax/data_parallel/replica_groups.h"
#include "triax/plan/zero_stages.h"

namespace triax {

/// The parameters of a replica, each bucket's in one block of memory, so that
/// its shards are gathered by one operation. Each parameter becomes a view.
class FlatParameters {
 public:
  /// Moves the values, one bucket after the other: no more than one of them is
  /// held twice.
  FlatParameters(const std::vector<at::Tensor>& parameters,
                 const FlatLayout& layout);

  /// Each rank's shard of each bucket to all others, from bucket `first` on.
  /// Every rank of `shards` must call.
  void gather(Group& shards, int first = 0);

  int64_t nbytes() const;

 private:
  const FlatLayout layout_;
  std::vector<at::Tensor> blocks_;  // one for each bucket
};

}  // namespace triax
