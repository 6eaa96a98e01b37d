// SPDX-License-Identifier: Apache-2.0
#include "triax/train/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace triax {

double norm_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

double distance_between(const at::Tensor& a, const at::Tensor& b) {
  return norm_of(a.to(at::kDouble) - b.to(at::kDouble));
}

double root_numel(const at::Tensor& tensor) {
  return std::sqrt(static_cast<double>(tensor.numel()));
}

double divide(double difference, double scale) {
  if (!std::isfinite(difference)) {
    return std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : difference / scale;
}

double relative(double a, double b) {
  return divide(std::abs(a - b), std::max(std::abs(b), 1e-12));
}

double rms_of(const TensorMap& gradients) {
  double squares = 0;
  double numel = 0;
  for (const auto& [name, tensor] : gradients) {
    squares += std::pow(norm_of(tensor), 2);
    numel += static_cast<double>(tensor.numel());
  }
  return std::sqrt(squares / std::max(numel, 1.0));
}

double gradient_scale(const at::Tensor& b, double rms) {
  return std::max(norm_of(b), 1e-3 * rms * root_numel(b));
}

double gradient_distance(const at::Tensor& a, const at::Tensor& b, double rms) {
  return divide(distance_between(a, b), gradient_scale(b, rms));
}

}  // namespace triax
