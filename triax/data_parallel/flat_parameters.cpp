// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "triax/data_parallel/flat_buffer.h"
#include "triax/mesh/tensor_group.h"

namespace triax {

FlatParameters::FlatParameters(const std::vector<at::Tensor>& parameters,
                               const FlatLayout& layout)
    : layout_(layout),
      flat_(at::empty({layout.numel()}, options_like(parameters))) {
  const at::NoGradGuard no_grad;
  int64_t end = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    const Range& range = layout.parameters[i];
    flat_.narrow(0, end, range.start - end).zero_();
    const at::Tensor view = view_in(flat_, 0, range, parameter);
    view.copy_(parameter);
    parameter.set_data(view);
    end = range.start + range.length;
  }
  flat_.narrow(0, end, layout.numel() - end).zero_();
}

void FlatParameters::gather(Group& shards, int first) {
  std::vector<Work> works;
  for (size_t b = first; b < layout_.buckets.size(); ++b) {
    const Bucket& bucket = layout_.buckets[b];
    const Range mine = shard_of(layout_, bucket, shards.rank());
    works.push_back(shards.all_gather_async(
        as_buffer(flat_.narrow(0, mine.start, mine.length)),
        as_buffer(flat_.narrow(0, bucket.range.start, bucket.range.length))));
  }
  for (Work& work : works) {
    work.wait();
  }
}

}  // namespace triax
