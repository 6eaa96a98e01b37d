// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "triax/data_parallel/flat_buffer.h"
#include "triax/mesh/tensor_group.h"

namespace triax {

FlatParameters::FlatParameters(const std::vector<at::Tensor>& parameters,
                               const FlatLayout& layout)
    : layout_(layout) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = options_like(parameters);
  for (const Bucket& bucket : layout_.buckets) {
    const at::Tensor block = at::empty({bucket.range.length}, options);
    int64_t end = 0;
    for (const int index : bucket.parameters) {
      const at::Tensor& parameter = parameters[index];
      const Range& range = layout_.parameters[index];
      const int64_t start = range.start - bucket.range.start;
      block.narrow(0, end, start - end).zero_();
      const at::Tensor view =
          view_in(block, bucket.range.start, range, parameter);
      view.copy_(parameter);
      parameter.set_data(view);
      end = start + range.length;
    }
    block.narrow(0, end, bucket.range.length - end).zero_();
    blocks_.push_back(block);
  }
}

void FlatParameters::gather(Group& shards, int first) {
  std::vector<Work> works;
  for (size_t b = first; b < layout_.buckets.size(); ++b) {
    const Bucket& bucket = layout_.buckets[b];
    const Range mine = shard_of(layout_, bucket, shards.rank());
    works.push_back(shards.all_gather_async(
        as_buffer(
            blocks_[b].narrow(0, mine.start - bucket.range.start, mine.length)),
        as_buffer(blocks_[b])));
  }
  for (Work& work : works) {
    work.wait();
  }
}

int64_t FlatParameters::nbytes() const {
  int64_t nbytes = 0;
  for (const at::Tensor& block : blocks_) {
    nbytes += static_cast<int64_t>(block.nbytes());
  }
  return nbytes;
}

}  // namespace triax
