// SPDX-License-Identifier: Apache-2.0
#include "triax/model/feed_forward.h"

#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/tensors.h"

namespace triax {
namespace {

TEST(SwiGlu, IsTheComposedFormula) {
  const TensorFunction ours = [](const std::vector<at::Tensor>& in) {
    return swiglu(in[0]);
  };
  const TensorFunction theirs = [](const std::vector<at::Tensor>& in) {
    return at::silu(in[0].narrow(2, 0, 5)) * in[0].narrow(2, 5, 5);
  };
  const at::Tensor x = random_tensor({2, 3, 10}, 1);
  EXPECT_LT(max_difference(ours({x}), theirs({x})), 1e-15);
  EXPECT_LT(max_difference(gradients(ours, {x})[0], gradients(theirs, {x})[0]),
            1e-14);
  EXPECT_LT(gradient_error(ours, {x}), 1e-8);
}

std::shared_ptr<FeedForward> make(Activation activation) {
  auto feed_forward = std::make_shared<FeedForward>(
      FeedForwardOptions{.hidden_size = 4,
                         .intermediate_size = 6,
                         .activation = activation,
                         .has_bias = activation == Activation::kGeluTanh});
  uint64_t seed = 5;
  for (Linear* linear : {feed_forward->up.get(), feed_forward->down.get()}) {
    linear->allocate_own_slots(at::kDouble);
    linear->weight->tensor.detach().copy_(
        random_tensor(linear->weight->tensor.sizes(), seed++));
  }
  return feed_forward;
}

TEST(FeedForward, GateIsTheFirstHalfOfUp) {
  const auto feed_forward = make(Activation::kSwiGlu);
  const at::Tensor x = random_tensor({2, 3, 4}, 1);
  const at::Tensor& up = feed_forward->up->weight->tensor;
  const at::Tensor gate = x.matmul(up.narrow(0, 0, 6).t());
  const at::Tensor expected =
      (at::silu(gate) * x.matmul(up.narrow(0, 6, 6).t()))
          .matmul(feed_forward->down->weight->tensor.t());
  EXPECT_LT(max_difference(feed_forward->forward(x), expected), 1e-13);
}

TEST(FeedForward, Gpt2HasGeluByTanh) {
  const auto feed_forward = make(Activation::kGeluTanh);
  const at::Tensor x = random_tensor({2, 3, 4}, 1);
  const at::Tensor u = x.matmul(feed_forward->up->weight->tensor.t());
  const at::Tensor gelu =
      u * 0.5 *
      (at::tanh((u + u.pow(3) * 0.044715) * std::sqrt(2 / std::numbers::pi)) +
       1);
  EXPECT_LT(max_difference(feed_forward->forward(x),
                           gelu.matmul(feed_forward->down->weight->tensor.t())),
            1e-13);
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return feed_forward->forward(in[0]);
  };
  EXPECT_LT(gradient_error(ours, {x}), 1e-8);
}

}  // namespace
}  // namespace triax
