// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tensors.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace triax {
namespace {

constexpr double kStep = 1e-6;
constexpr int64_t kMaxElements = 60;  // looked at in one input
constexpr uint64_t kWeightSeed = 99;

at::Tensor weigh(const at::Tensor& result) {
  return (result * random_tensor(result.sizes(), kWeightSeed)).sum();
}

double difference_quotient(const TensorFunction& function,
                           const std::vector<at::Tensor>& inputs,
                           double& element) {
  const double middle = element;
  element = middle + kStep;
  const double above = weigh(function(inputs)).item<double>();
  element = middle - kStep;
  const double below = weigh(function(inputs)).item<double>();
  element = middle;
  return (above - below) / (2 * kStep);
}

}  // namespace

at::Tensor random_tensor(at::IntArrayRef shape,
                         uint64_t seed,
                         at::ScalarType dtype) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kDouble)
      .to(dtype);
}

at::Tensor random_ids(at::IntArrayRef shape, int64_t num_ids, uint64_t seed) {
  return at::randint(
      num_ids, shape, at::detail::createCPUGenerator(seed), at::kLong);
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  const double worst =
      (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(worst) ? std::numeric_limits<double>::infinity() : worst;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  const double distance =
      ((a.to(at::kDouble) - wide).norm() / wide.norm()).item<double>();
  return std::isnan(distance) ? std::numeric_limits<double>::infinity()
                              : distance;
}

bool bits_equal(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

std::vector<at::Tensor> gradients(const TensorFunction& function,
                                  const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_());
  }
  weigh(function(leaves)).backward();
  std::vector<at::Tensor> grads;
  for (const at::Tensor& leaf : leaves) {
    grads.push_back(leaf.grad());
  }
  return grads;
}

double gradient_error(const TensorFunction& function,
                      const std::vector<at::Tensor>& inputs) {
  const std::vector<at::Tensor> grads = gradients(function, inputs);
  std::vector<at::Tensor> moved;
  for (const at::Tensor& input : inputs) {
    moved.push_back(input.detach().clone());
  }
  double worst = 0.0;
  double largest = 1.0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor grad = grads[i].contiguous();
    const int64_t stride = (grad.numel() + kMaxElements - 1) / kMaxElements;
    for (int64_t j = 0; j < grad.numel(); j += stride) {
      const double expected =
          difference_quotient(function, moved, moved[i].data_ptr<double>()[j]);
      const double error = std::abs(grad.data_ptr<double>()[j] - expected);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity()
                                : std::max(worst, error);
      largest = std::max(largest, std::abs(expected));
    }
  }
  return worst / largest;
}

}  // namespace triax
