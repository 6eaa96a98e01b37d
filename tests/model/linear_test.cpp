// SPDX-License-Identifier: Apache-2.0
#include "triax/model/linear.h"

#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace triax {
namespace {

std::shared_ptr<Linear> make_linear(bool has_bias,
                                    at::ScalarType dtype = at::kDouble) {
  auto linear = std::make_shared<Linear>(
      LinearOptions{.in_features = 5, .out_features = 3, .has_bias = has_bias});
  linear->allocate_own_slots(dtype);
  linear->weight->tensor.detach().copy_(random_tensor({3, 5}, 1));
  if (has_bias) {
    linear->bias->tensor.detach().copy_(random_tensor({3}, 2));
  }
  return linear;
}

/// With x, weight and bias as the inputs.
TensorFunction through(const std::shared_ptr<Linear>& linear) {
  return [linear](const std::vector<at::Tensor>& in) {
    linear->weight->tensor = in[1];
    if (linear->bias) {
      linear->bias->tensor = in[2];
    }
    return linear->forward(in[0]);
  };
}

TEST(Linear, IsLibTorchsLinear) {
  const auto linear = make_linear(true);
  const at::Tensor x = random_tensor({2, 4, 5}, 3);
  EXPECT_LT(max_difference(
                linear->forward(x),
                at::linear(x, linear->weight->tensor, linear->bias->tensor)),
            1e-14);
}

TEST(Linear, HasTheRightGradients) {
  EXPECT_LT(gradient_error(through(make_linear(true)),
                           {random_tensor({2, 4, 5}, 3),
                            random_tensor({3, 5}, 4),
                            random_tensor({3}, 5)}),
            1e-8);
}

TEST(Linear, RegistersItsParametersWhenTheyGetStorage) {
  Linear linear({.in_features = 5, .out_features = 3, .has_bias = true});
  EXPECT_TRUE(linear.parameters().empty());
  EXPECT_THROW(linear.forward(random_tensor({1, 5}, 1)), std::logic_error);
  linear.weight->layout.shape = {2, 5};
  linear.allocate_own_slots(at::kFloat);
  ASSERT_EQ(linear.parameters().size(), 2u);
  EXPECT_EQ(linear.named_parameters()["weight"].sizes(),
            (std::vector<int64_t>{2, 5}));
  EXPECT_TRUE(linear.weight->tensor.is_same(linear.parameters()[0]));
  EXPECT_TRUE(linear.weight->tensor.requires_grad());
}

TEST(Linear, AddsTheBiasAfterTheOutputBoundary) {
  const auto linear = make_linear(true);
  const at::Tensor x = random_tensor({2, 5}, 3);
  const at::Tensor plain = linear->forward(x) - linear->bias->tensor;
  linear->on_output = [](const at::Tensor& y) { return y * 2; };
  EXPECT_LT(
      max_difference(linear->forward(x), plain * 2 + linear->bias->tensor),
      1e-14);
}

TEST(Linear, PassesTheInputThroughItsBoundary) {
  const auto linear = make_linear(false);
  const at::Tensor x = random_tensor({2, 5}, 3);
  const at::Tensor expected = linear->forward(x * 3);
  linear->on_input = [](const at::Tensor& in) { return in * 3; };
  EXPECT_TRUE(bits_equal(linear->forward(x), expected));
}

TEST(Linear, WeightGradientMayBePutOff) {
  const auto linear = make_linear(true);
  const at::Tensor x = random_tensor({2, 4, 5}, 3).requires_grad_();
  linear->forward(x).square().sum().backward();
  const at::Tensor weight_grad = linear->weight->tensor.grad();
  const at::Tensor input_grad = x.grad();
  linear->zero_grad();
  x.mutable_grad() = at::Tensor();

  at::Tensor input;
  at::Tensor grad_output;
  linear->on_weight_gradient = [&](const at::Tensor& in, const at::Tensor& g) {
    input = in;
    grad_output = g;
  };
  linear->forward(x).square().sum().backward();
  EXPECT_FALSE(linear->weight->tensor.grad().defined());
  EXPECT_TRUE(bits_equal(x.grad(), input_grad));
  EXPECT_TRUE(bits_equal(weight_gradient(input, grad_output, at::kDouble),
                         weight_grad));
}

TEST(Linear, MultipliesInTheGivenDtypeOverWiderWeights) {
  const auto linear = make_linear(true, at::kFloat);
  const at::Tensor x = random_tensor({2, 4, 5}, 3, at::kFloat).requires_grad_();
  const at::Tensor wide = linear->forward(x);
  linear->matmul_dtype = at::kBFloat16;
  const at::Tensor y = linear->forward(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_difference(y, wide), 2e-2);
  EXPECT_GT(relative_difference(y, wide), 1e-5);
  y.sum().backward();
  EXPECT_EQ(linear->weight->tensor.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
}

TEST(Linear, SharedWeightStaysTheOthersParameter) {
  const auto owner = make_linear(false);
  Linear sharer(owner->weight);
  EXPECT_TRUE(sharer.own_slots().empty());
  const at::Tensor x = random_tensor({2, 5}, 3);
  EXPECT_TRUE(bits_equal(sharer.forward(x), owner->forward(x)));
}

}  // namespace
}  // namespace triax
