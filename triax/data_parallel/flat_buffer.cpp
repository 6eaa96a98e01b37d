// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/flat_buffer.h"

#include <ATen/ops/zeros.h>

#include "triax/base/error.h"

namespace triax {
namespace {

int64_t aligned(int64_t numel) {
  return (numel + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment;
}

}  // namespace

FlatBuffer::FlatBuffer(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)) {
  int64_t total = 0;
  for (const at::Tensor& parameter : parameters_) {
    TRIAX_CHECK(parameter.scalar_type() == parameters_[0].scalar_type(),
                "a flat buffer holds one dtype");
    ranges_.push_back({total, aligned(parameter.numel())});
    total += ranges_.back().length;
  }
  const auto options = parameters_.empty()
                           ? at::TensorOptions(at::kFloat)
                           : parameters_[0].options().requires_grad(false);
  flat_ = at::zeros({total}, options);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    gradients_.push_back(flat_.narrow(0, ranges_[i].start, parameter.numel())
                             .view(parameter.sizes()));
    parameter.mutable_grad() = gradients_.back();
  }
}

at::Tensor FlatBuffer::slice(const Range& range) const {
  return flat_.narrow(0, range.start, range.length);
}

void FlatBuffer::zero() {
  flat_.zero_();
}

}  // namespace triax
