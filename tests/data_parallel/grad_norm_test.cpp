// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/grad_norm.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/run_ranks.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

TEST(GradNorm, SumsSquaresInFp64) {
  for (int64_t numel : {0, 1, 15, 16, 17, 4095, 4096, 4097, 10000}) {
    const at::Tensor values = at::arange(numel, at::kDouble);
    const double n = static_cast<double>(numel);
    const double expected = numel == 0 ? 0 : (n - 1) * n * (2 * n - 1) / 6;
    EXPECT_EQ(sum_of_squares(values), expected) << numel;
    EXPECT_EQ(sum_of_squares(values.to(at::kFloat)), expected) << numel;
  }
}

// Squared norms 20 and 100 on two ranks: the norm is sqrt(120), and averaging
// the norms would give 7.236.
TEST(GradNorm, IsLayoutFree) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const double norm =
        std::sqrt(sum_over(*world, world->rank() == 0 ? 20.0 : 100.0));
    EXPECT_NEAR(norm, 10.954451, 1e-6);
    EXPECT_NEAR(clip_factor(norm, 1.0), 0.0912871, 1e-7);
  });
}

double owned_squares(const at::Tensor& gradient,
                     const ParameterLayout& layout) {
  ExactSum sum;
  add_owned_squares(sum, gradient.view({-1}), {0, gradient.numel()}, layout);
  return sum.value();
}

// The bits do not depend on where a gradient is cut, nor on the order.
TEST(GradNorm, IsTheSameHoweverAGradientIsCut) {
  at::manual_seed(1);
  const at::Tensor gradient =
      at::randn({50, 37}, at::TensorOptions(at::kFloat)) * 1e3;
  ParameterLayout layout;
  layout.shape = {50, 37};
  const Piece first{"a", {20, 37}, {{0, 20}, {0, 37}}, {0, 0}, false, 1, 0, {}};
  const Piece copy{"b", {30, 37}, {{0, 30}, {0, 37}}, {20, 0}, false, 2, 1, {}};
  for (const auto& pieces : {std::vector{first}, std::vector{first, copy}}) {
    layout.pieces = pieces;
    const double whole = owned_squares(gradient, layout);
    EXPECT_GT(whole, 0.0);
    for (int64_t length : {64, 128, 448, 1792}) {
      ExactSum sum;
      for (int64_t end = gradient.numel(); end > 0;) {
        const int64_t start = (end - 1) / length * length;
        add_owned_squares(sum,
                          gradient.view({-1}).narrow(0, start, end - start),
                          {start, end - start},
                          layout);
        end = start;
      }
      EXPECT_EQ(sum.value(), whole) << length;
    }
  }
}

TEST(GradNorm, CountsAReplicatedPieceOnce) {
  ParameterLayout layout;
  layout.shape = {6, 2};
  Piece q{"q", {4, 2}, {{0, 4}, {0, 2}}, {0, 0}, false, 1, 0, {}};
  Piece k{"k", {2, 2}, {{0, 2}, {0, 2}}, {4, 0}, false, 2, 0, {}};
  const at::Tensor gradient = at::ones({6, 2}, at::kDouble);
  layout.pieces = {q, k};
  EXPECT_EQ(owned_squares(gradient, layout), 12.0);
  layout.pieces[1].replica = 1;
  EXPECT_EQ(owned_squares(gradient, layout), 8.0);
}

TEST(ClipFactor, LeavesSmallNormsAlone) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(2.0, 1.0), 0.5);
  EXPECT_EQ(clip_factor(2.0, 0.0), 1.0);
  EXPECT_TRUE(std::isnan(clip_factor(std::nan(""), 1.0)));
  EXPECT_TRUE(
      std::isnan(clip_factor(std::numeric_limits<double>::infinity(), 1.0)));
}

}  // namespace
}  // namespace triax
