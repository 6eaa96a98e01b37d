// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"

namespace triax {
namespace {

/// tanh(x w), twice, and how often it was called.
struct TwoProducts {
  at::Tensor weight = random_tensor({5, 5}, 1).requires_grad_();
  int num_calls = 0;

  Segment segment() {
    return [this](const at::Tensor& x) {
      ++num_calls;
      return at::tanh(at::mm(at::tanh(at::mm(x, weight)), weight));
    };
  }
};

TEST(Recompute, GivesTheSameBits) {
  const at::Tensor weights = random_tensor({3, 5}, 3);
  TwoProducts kept;
  const at::Tensor x = random_tensor({3, 5}, 2).requires_grad_();
  const at::Tensor y = kept.segment()(x);
  (y * weights).sum().backward();

  TwoProducts redone;
  const at::Tensor same_x = random_tensor({3, 5}, 2).requires_grad_();
  const at::Tensor same_y = recompute(same_x, redone.segment(), true);
  EXPECT_TRUE(bits_equal(same_y.detach(), y.detach()));
  EXPECT_EQ(redone.num_calls, 1);
  (same_y * weights).sum().backward();
  EXPECT_EQ(redone.num_calls, 2);
  EXPECT_TRUE(bits_equal(redone.weight.grad(), kept.weight.grad()));
  EXPECT_TRUE(bits_equal(same_x.grad(), x.grad()));
}

TEST(Recompute, TrainsASegmentWhoseInputNeedsNoGradient) {
  TwoProducts parts;
  const at::Tensor x = random_tensor({3, 5}, 2);
  recompute(x, parts.segment(), /*is_trained=*/true).sum().backward();
  EXPECT_TRUE(parts.weight.grad().defined());
  EXPECT_EQ(parts.num_calls, 2);
}

TEST(Recompute, HasNoGraphWhereNothingIsTrained) {
  TwoProducts frozen;
  frozen.weight.requires_grad_(false);
  const at::Tensor x = random_tensor({3, 5}, 2);
  EXPECT_FALSE(recompute(x, frozen.segment(), false).requires_grad());
}

TEST(Recompute, PassesTheGradientThroughWhatIsFrozen) {
  TwoProducts frozen;
  frozen.weight.requires_grad_(false);
  const at::Tensor x = random_tensor({3, 5}, 2).requires_grad_();
  recompute(x, frozen.segment(), /*is_trained=*/false).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(frozen.weight.grad().defined());
}

TEST(Recompute, KeepsNoGraphInValidation) {
  const at::NoGradGuard no_grad;
  TwoProducts parts;
  const at::Tensor x = random_tensor({3, 5}, 2).requires_grad_();
  EXPECT_FALSE(recompute(x, parts.segment(), true).requires_grad());
}

TEST(Recompute, SegmentsFollowEachOther) {
  TwoProducts parts;
  at::Tensor x = random_tensor({3, 5}, 2).requires_grad_();
  at::Tensor y = x;
  for (int i = 0; i < 70; ++i) {
    y = recompute(y, parts.segment(), true);
  }
  y.sum().backward();
  EXPECT_EQ(parts.num_calls, 140);
  EXPECT_TRUE(x.grad().defined());
}

TEST(Recompute, ThrowsWhatTheSegmentThrows) {
  int num_calls = 0;
  const Segment fails_again = [&](const at::Tensor& x) {
    if (++num_calls == 2) {
      throw std::runtime_error("the second time");
    }
    return x * 2.0;
  };
  const at::Tensor x = random_tensor({3}, 2).requires_grad_();
  const at::Tensor y = recompute(x, fails_again, true).sum();
  EXPECT_THROW(y.backward(), std::runtime_error);
}

}  // namespace
}  // namespace triax
