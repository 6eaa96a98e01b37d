// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace triax {

/// Times a few matrix products of 512 × 512.
class MatmulTimer {
 public:
  explicit MatmulTimer(at::ScalarType type);
  /// Runs them once on this process's threads.
  double seconds() const;
  /// What one run computes.
  double flops() const;

 private:
  at::Tensor factor_;
};

}  // namespace triax
