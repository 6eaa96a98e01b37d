// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "triax/base/piece.h"

namespace triax {

/// Every parameter starts at a multiple of this many elements: the fused
/// optimizer kernels give other bits on slices that are not aligned.
inline constexpr int64_t kFlatAlignment = 64;

/// The gradients of a list of parameters in one block of memory. Each
/// parameter's grad() is a view of it, so that autograd adds in place.
class FlatBuffer {
 public:
  /// The parameters must be distinct, defined leaves of one dtype. They are
  /// laid out in the given order.
  explicit FlatBuffer(std::vector<at::Tensor> parameters);

  int num_parameters() const { return static_cast<int>(parameters_.size()); }
  const at::Tensor& parameter(int index) const { return parameters_[index]; }
  /// The gradient of parameter `index`, in the parameter's shape.
  const at::Tensor& gradient(int index) const { return gradients_[index]; }
  /// Where parameter `index` lies, alignment included.
  Range range(int index) const { return ranges_[index]; }
  int64_t numel() const { return flat_.numel(); }
  int64_t nbytes() const { return flat_.numel() * flat_.element_size(); }
  /// Elements [range.start, range.start + range.length), one dim.
  at::Tensor slice(const Range& range) const;
  void zero();

 private:
  const std::vector<at::Tensor> parameters_;
  std::vector<Range> ranges_;
  std::vector<at::Tensor> gradients_;
  at::Tensor flat_;
};

}  // namespace triax
