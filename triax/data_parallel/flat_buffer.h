// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triax/plan/zero_stages.h"

namespace triax {

/// Elements of each tensor.
std::vector<int64_t> numels_of(const std::vector<at::Tensor>& tensors);

/// The gradients of a list of parameters in one block of memory, fp32 beside
/// 16-bit parameters. Each parameter's grad() is a view of it, so that autograd
/// adds in place.
class FlatBuffer {
 public:
  /// The parameters must be distinct, defined leaves of one dtype, and the
  /// layout one of theirs.
  FlatBuffer(std::vector<at::Tensor> parameters, FlatLayout layout);
  /// Laid out in the given order.
  explicit FlatBuffer(std::vector<at::Tensor> parameters,
                      const FlatOptions& options = {});

  const FlatLayout& layout() const { return layout_; }
  int num_parameters() const { return static_cast<int>(parameters_.size()); }
  const at::Tensor& parameter(int index) const { return parameters_[index]; }
  /// The gradient of parameter `index`, in the parameter's shape.
  const at::Tensor& gradient(int index) const { return gradients_[index]; }
  int64_t numel() const { return flat_.numel(); }
  int64_t nbytes() const { return flat_.numel() * flat_.element_size(); }
  /// Elements [range.start, range.start + range.length), one dim.
  at::Tensor slice(const Range& range) const;
  void zero();

 private:
  const std::vector<at::Tensor> parameters_;
  const FlatLayout layout_;
  std::vector<at::Tensor> gradients_;
  at::Tensor flat_;
};

/// Views of a block of memory that is laid out like a bucket or a whole
/// buffer: the part of parameter `index`, in the parameter's shape. `start` is
/// the block's place in the flat buffer.
at::Tensor view_in(const at::Tensor& block,
                   int64_t start,
                   const Range& range,
                   const at::Tensor& parameter);

/// Options of a block of memory beside these parameters.
at::TensorOptions options_like(const std::vector<at::Tensor>& parameters);

/// Options of a block for their gradients, which are fp32 beside 16-bit
/// parameters.
at::TensorOptions gradient_options(const std::vector<at::Tensor>& parameters);

/// Has autograd leave the parameters' gradients in the dtype of
/// gradient_options(): it would round them to the parameters' own. Before
/// anything hooks into them.
void widen_gradients(const std::vector<at::Tensor>& parameters);

}  // namespace triax
