// SPDX-License-Identifier: Apache-2.0
#include "triax/model/norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace triax {
namespace {

constexpr double kEps = 1e-3;

TensorFunction rms_norm() {
  return [](const std::vector<at::Tensor>& in) {
    RmsNorm norm(in[1].size(0), kEps);
    norm.weight->tensor = in[1];
    return norm.forward(in[0]);
  };
}

TensorFunction layer_norm() {
  return [](const std::vector<at::Tensor>& in) {
    LayerNorm norm(in[1].size(0), kEps);
    norm.weight->tensor = in[1];
    norm.bias->tensor = in[2];
    return norm.forward(in[0]);
  };
}

TEST(RmsNorm, IsLibTorchsComposedOne) {
  const std::vector<at::Tensor> in = {random_tensor({2, 3, 6}, 1),
                                      random_tensor({6}, 2)};
  const TensorFunction theirs = [](const std::vector<at::Tensor>& x) {
    return at::rms_norm(x[0], x[1].sizes(), x[1], kEps);
  };
  EXPECT_LT(max_difference(rms_norm()(in), theirs(in)), 1e-14);
  const auto ours = gradients(rms_norm(), in);
  const auto expected = gradients(theirs, in);
  EXPECT_LT(max_difference(ours[0], expected[0]), 1e-13);
  EXPECT_LT(max_difference(ours[1], expected[1]), 1e-13);
}

TEST(RmsNorm, HasTheRightGradients) {
  EXPECT_LT(
      gradient_error(rms_norm(),
                     {random_tensor({2, 3, 6}, 1), random_tensor({6}, 2)}),
      1e-8);
}

TEST(RmsNorm, TakesStatisticsOfShortTypesInFp32) {
  const at::Tensor x = random_tensor({4, 256}, 1, at::kBFloat16);
  RmsNorm norm(256, kEps);
  norm.weight->tensor = random_tensor({256}, 2, at::kBFloat16);
  RmsNorm wide(256, kEps);
  wide.weight->tensor = norm.weight->tensor.to(at::kFloat);
  EXPECT_TRUE(bits_equal(norm.forward(x),
                         wide.forward(x.to(at::kFloat)).to(at::kBFloat16)));
}

TEST(LayerNorm, HasTheRightGradients) {
  const std::vector<at::Tensor> in = {random_tensor({2, 3, 6}, 1),
                                      random_tensor({6}, 2),
                                      random_tensor({6}, 3)};
  EXPECT_LT(
      max_difference(layer_norm()(in),
                     at::layer_norm(in[0], in[1].sizes(), in[1], in[2], kEps)),
      1e-14);
  EXPECT_LT(gradient_error(layer_norm(), in), 1e-8);
}

}  // namespace
}  // namespace triax
