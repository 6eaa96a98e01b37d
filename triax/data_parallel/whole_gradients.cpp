// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/whole_gradients.h"

#include <utility>

#include "triax/mesh/tensor_group.h"

namespace triax {

WholeGradients::WholeGradients(std::vector<at::Tensor> parameters,
                               const FlatLayout& layout,
                               ReplicaGroups& groups,
                               std::optional<at::ScalarType> sent_as)
    : buffer_(std::move(parameters), layout),
      groups_(groups),
      reducer_(buffer_, groups, sent_as) {
  reducer_.before_reduce = [this](int bucket) {
    if (before_reduce) {
      before_reduce(bucket);
    }
  };
}

void WholeGradients::zero() {
  reducer_.abandon();
  buffer_.zero();
}

void WholeGradients::before_backward(bool is_last) {
  if (is_last) {
    reducer_.prepare();
  }
}

at::Tensor WholeGradients::owned(const ShardSlice& slice) const {
  return buffer_.slice({slice.start, slice.elements.length});
}

at::Tensor WholeGradients::own(int bucket) const {
  return buffer_.slice(buffer_.layout().buckets[bucket].range);
}

void WholeGradients::multiply(double factor) {
  buffer_.slice({0, buffer_.numel()}).mul_(factor);
}

void WholeGradients::gather() {
  Group* shards = groups_.shards();
  if (shards == nullptr) {
    return;
  }
  for (const Bucket& bucket : buffer_.layout().buckets) {
    const Range mine = shard_of(buffer_.layout(), bucket, groups_.shard());
    shards->all_gather(as_buffer(buffer_.slice(mine)),
                       as_buffer(buffer_.slice(bucket.range)));
  }
}

}  // namespace triax
