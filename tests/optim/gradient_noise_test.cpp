// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/gradient_noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace triax {
namespace {

using testing::HasSubstr;

// Expected norms for |G|² = 4 and tr Σ = 96: |G_B|² = 4 + 96 / B.
TEST(GradientNoise, InvertsTheExpectedNorms) {
  GradientNoise noise;
  noise.add(2, 4.0 + 96.0 / 2, 16, 4.0 + 96.0 / 16);
  EXPECT_NEAR(noise.squared_gradient(), 4.0, 1e-12);
  EXPECT_NEAR(noise.trace_of_covariance(), 96.0, 1e-12);
  EXPECT_NEAR(noise.noise_scale().value(), 24.0, 1e-12);
}

// One step's ratio is biased; the ratio of the averages is not.
TEST(GradientNoise, AveragesBothSidesBeforeDividing) {
  GradientNoise noise(0.5);
  noise.add(1, 14.0, 3, 6.0);   // |G|² 2, trace 12
  noise.add(1, 20.0, 3, 12.0);  // |G|² 8, trace 12
  EXPECT_NEAR(noise.squared_gradient(), (0.25 * 2 + 0.5 * 8) / 0.75, 1e-12);
  EXPECT_NEAR(noise.noise_scale().value(), 12.0 / 6.0, 1e-12);
}

// Per-sample gradients g = G + noise of known covariance; |G|² = 1 in 50
// dims, each of variance 0.4: B_simple = 20. Standard error about 2 %.
TEST(GradientNoise, FindsTheScaleOfSyntheticGradients) {
  constexpr int kDims = 50;
  constexpr int kSmall = 4;
  constexpr int kReplicas = 8;
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0.0, std::sqrt(0.4));
  GradientNoise noise(0.9995);
  for (int step = 0; step < 3000; ++step) {
    std::vector<double> mean(kDims, 0.0);
    double small_norm = 0.0;
    for (int replica = 0; replica < kReplicas; ++replica) {
      for (double& total : mean) {
        double sum = 0.0;
        for (int sample = 0; sample < kSmall; ++sample) {
          sum += 1.0 / std::sqrt(kDims) + normal(random);
        }
        const double gradient = sum / kSmall;
        small_norm += gradient * gradient / kReplicas;
        total += gradient / kReplicas;
      }
    }
    double big_norm = 0.0;
    for (double value : mean) {
      big_norm += value * value;
    }
    noise.add(kSmall, small_norm, kSmall * kReplicas, big_norm);
  }
  EXPECT_NEAR(noise.noise_scale().value(), 20.0, 1.6);
}

TEST(GradientNoise, SaysNothingBeforeItKnows) {
  GradientNoise noise;
  EXPECT_FALSE(noise.noise_scale());
  noise.add(8, 3.0, 8, 3.0);  // one replica, one microbatch
  EXPECT_FALSE(noise.noise_scale());
  noise.add(4, std::numeric_limits<double>::infinity(), 8, 3.0);
  noise.add(4, 3.0, 8, std::nan(""));
  EXPECT_FALSE(noise.noise_scale());
  EXPECT_EQ(noise.num_ignored(), 3);
  EXPECT_EQ(noise.num_steps(), 0);
  noise.add(4, 10.0, 8, 4.0);  // |G|² -2
  EXPECT_EQ(noise.num_steps(), 1);
  EXPECT_FALSE(noise.noise_scale());
}

TEST(BatchSizeAdvice, FollowsTheScale) {
  EXPECT_THAT(batch_size_advice(1000, 16), HasSubstr("would pay: it needs"));
  EXPECT_THAT(batch_size_advice(1000, 1000),
              HasSubstr("2x the fewest steps and 2x the fewest samples"));
  EXPECT_THAT(batch_size_advice(1000, 1000), HasSubstr("near the balance"));
  EXPECT_THAT(batch_size_advice(16, 1000), HasSubstr("would not pay"));
}

}  // namespace
}  // namespace triax
