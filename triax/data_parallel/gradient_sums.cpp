// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/gradient_sums.h"

#include <algorithm>

#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

int64_t nbytes_of(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.nbytes());
}

}  // namespace

void GradientSums::all_reduce(Group& group, const at::Tensor& values) {
  if (!sent_as_) {
    sums_.push_back({{}, values, 0, all_reduce_async(group, values)});
    return;
  }
  const at::Tensor sent = narrow_copy(values);
  sums_.push_back(
      {sent, values, nbytes_of(sent), all_reduce_async(group, sent)});
}

void GradientSums::reduce_scatter(Group& group,
                                  const at::Tensor& whole,
                                  const at::Tensor& mine) {
  if (!sent_as_) {
    sums_.push_back(
        {{},
         mine,
         0,
         group.reduce_scatter_async(as_buffer(whole), as_buffer(mine))});
    return;
  }
  const at::Tensor sent = narrow_copy(whole);
  const at::Tensor received =
      sent.narrow(0, group.rank() * mine.numel(), mine.numel());
  sums_.push_back(
      {received,
       mine,
       nbytes_of(sent),
       group.reduce_scatter_async(as_buffer(sent), as_buffer(received))});
}

at::Tensor GradientSums::narrow_copy(const at::Tensor& values) {
  while (sums_.size() >= kMaxGradientBlocks) {
    settle_oldest();
  }
  const MemoryScope memory(MemoryCategory::kCommunication);
  const at::Tensor copy = values.to(*sent_as_);
  bytes_ += nbytes_of(copy);
  most_bytes_ = std::max(most_bytes_, bytes_);
  return copy;
}

void GradientSums::settle_oldest() {
  Sum& oldest = sums_.front();
  oldest.work.wait();
  if (oldest.received.defined()) {
    oldest.place.copy_(oldest.received);
  }
  bytes_ -= oldest.nbytes;
  sums_.pop_front();
}

void GradientSums::wait() {
  while (!sums_.empty()) {
    settle_oldest();
  }
}

}  // namespace triax
