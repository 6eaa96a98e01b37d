// SPDX-License-Identifier: Apache-2.0
#include "triax/train/rounding_noise.h"

#include <gtest/gtest.h>

#include <cmath>

namespace triax {
namespace {

constexpr int64_t kMany = 1000;

StepDistances distances(double loss, double norm, double gradient) {
  return {.loss = loss, .norm = norm, .gradients = {{"a", gradient}}};
}

TEST(RoundingNoise, IsAFixedBoundWithoutRunsThatRoundOtherwise) {
  RoundingNoise noise(Precision::kFp64);
  noise.add_step({}, {});
  EXPECT_EQ(noise.loss_bound(), kFp64Bound);
  EXPECT_EQ(noise.norm_bound(), kFp64Bound);
  EXPECT_EQ(noise.gradient_bound("a", 1), kFp64Bound);
}

TEST(RoundingNoise, IsThatOfTheFarthestRunOfAllSteps) {
  RoundingNoise noise(Precision::kFp32);
  noise.add_step({distances(1e-4, 3e-4, 1e-3), distances(2e-4, 1e-4, 5e-4)},
                 {});
  noise.add_step({distances(0, 0, 0), distances(0, 0, 0)}, {});
  EXPECT_DOUBLE_EQ(noise.loss_bound(), 8e-4);
  EXPECT_DOUBLE_EQ(noise.norm_bound(), 1.2e-3);
  EXPECT_DOUBLE_EQ(noise.gradient_bound("a", kMany), 4e-3);
}

TEST(RoundingNoise, IsNoLessThanAFewRoundings) {
  RoundingNoise noise(Precision::kBf16);
  noise.add_step({distances(0, 0, 0)}, {});
  EXPECT_EQ(noise.loss_bound(), 1e-2);
  EXPECT_EQ(noise.norm_bound(), 1e-2);
  EXPECT_EQ(noise.gradient_bound("a", kMany), 2e-2);
}

// The norm of few errors may happen to be small.
TEST(RoundingNoise, OfFewElementsSaysLess) {
  RoundingNoise noise(Precision::kFp32);
  StepDistances run;
  for (int i = 0; i < 20; ++i) {
    run.gradients["b" + std::to_string(i)] = 1e-9;
  }
  run.gradients["a"] = 1e-3;
  noise.add_step({run}, {});
  EXPECT_DOUBLE_EQ(noise.gradient_bound("a", 16), 4e-3);
  EXPECT_DOUBLE_EQ(noise.gradient_bound("a", 4), 1e-3 * std::exp(2.5));
  EXPECT_DOUBLE_EQ(noise.gradient_bound("a", 1), 1e-3 * std::exp(5.0));
}

TEST(RoundingNoise, OfAGradientIsThatOfNineInTenAtLeast) {
  RoundingNoise noise(Precision::kFp32);
  StepDistances run;
  for (int i = 0; i < 10; ++i) {
    run.gradients["b" + std::to_string(i)] = i * 1e-3;
  }
  noise.add_step({run}, {});
  EXPECT_DOUBLE_EQ(noise.gradient_bound("b0", kMany), 4 * 9e-3);
}

TEST(RoundingNoise, GrowsByWhatSendingMayDoInThisStep) {
  RoundingNoise noise(Precision::kFp64);
  noise.add_step({}, distances(0, 1e-2, 3e-2));
  EXPECT_EQ(noise.loss_bound(), kFp64Bound);
  EXPECT_DOUBLE_EQ(noise.norm_bound(), kFp64Bound + 1e-2);
  EXPECT_DOUBLE_EQ(noise.gradient_bound("a", kMany), kFp64Bound + 3e-2);
  noise.add_step({}, distances(0, 1e-3, 2e-3));
  EXPECT_DOUBLE_EQ(noise.norm_bound(), kFp64Bound + 1e-3);
  EXPECT_DOUBLE_EQ(sent_in_bf16(64.0), 1.0);
}

}  // namespace
}  // namespace triax
