// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/flat_buffer.h"

#include <ATen/ops/zeros.h>

#include "triax/base/error.h"
#include "triax/model/statistics_dtype.h"

namespace triax {

std::vector<int64_t> numels_of(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> numels;
  for (const at::Tensor& tensor : tensors) {
    numels.push_back(tensor.numel());
  }
  return numels;
}

at::Tensor view_in(const at::Tensor& block,
                   int64_t start,
                   const Range& range,
                   const at::Tensor& parameter) {
  return block.narrow(0, range.start - start, range.length)
      .view(parameter.sizes());
}

at::TensorOptions options_like(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    TRIAX_CHECK(parameter.scalar_type() == parameters[0].scalar_type(),
                "a flat buffer holds one dtype");
  }
  return parameters.empty() ? at::TensorOptions(at::kFloat)
                            : parameters[0].options().requires_grad(false);
}

at::TensorOptions gradient_options(const std::vector<at::Tensor>& parameters) {
  const at::TensorOptions options = options_like(parameters);
  return options.dtype(
      statistics_dtype(c10::typeMetaToScalarType(options.dtype())));
}

void widen_gradients(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    const at::ScalarType dtype = statistics_dtype(parameter.scalar_type());
    if (dtype != parameter.scalar_type()) {
      parameter.set_grad_dtype(dtype);
    }
  }
}

FlatBuffer::FlatBuffer(std::vector<at::Tensor> parameters, FlatLayout layout)
    : parameters_(std::move(parameters)), layout_(std::move(layout)) {
  TRIAX_CHECK(layout_.parameters.size() == parameters_.size(),
              layout_.parameters.size());
  widen_gradients(parameters_);
  flat_ = at::zeros({layout_.numel()}, gradient_options(parameters_));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i];
    gradients_.push_back(view_in(flat_, 0, layout_.parameters[i], parameter));
    parameter.mutable_grad() = gradients_.back();
  }
}

FlatBuffer::FlatBuffer(std::vector<at::Tensor> parameters,
                       const FlatOptions& options)
    : FlatBuffer(parameters, make_flat_layout(numels_of(parameters), options)) {
}

at::Tensor FlatBuffer::slice(const Range& range) const {
  return flat_.narrow(0, range.start, range.length);
}

void FlatBuffer::zero() {
  flat_.zero_();
}

}  // namespace triax
