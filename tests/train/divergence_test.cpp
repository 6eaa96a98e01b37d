// SPDX-License-Identifier: Apache-2.0
#include "triax/train/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

LossRecord losses(std::initializer_list<double> values) {
  LossRecord record;
  for (const double value : values) {
    record.add(value);
  }
  return record;
}

TEST(DivergenceAdvice, NamesWhatCanStillBeChanged) {
  RunConfig config;
  config.optimizer.lr = 3.0;
  config.optimizer.warmup_steps = 2;
  config.training.gradient_clipping = 1.0;
  const std::string clipped = divergence_advice(config, 5, 2.5);
  EXPECT_THAT(clipped, HasSubstr("optimizer.lr (3, 2.50e+00"));
  EXPECT_THAT(clipped, HasSubstr("optimizer.warmup_steps (2)"));
  EXPECT_THAT(clipped, Not(HasSubstr("gradient_clipping")));
  EXPECT_THAT(clipped, Not(HasSubstr("precision")));
  config.training.gradient_clipping = 0.0;
  EXPECT_THAT(divergence_advice(config, 5, 2.5),
              HasSubstr("training.gradient_clipping"));
}

TEST(DivergenceAdvice, OfAWarmUpIsNoLongerWarmUp) {
  RunConfig config;
  config.optimizer.warmup_steps = 100;
  EXPECT_THAT(divergence_advice(config, 5, 0.1),
              Not(HasSubstr("warmup_steps")));
}

TEST(DivergenceAdvice, BeforeTheFirstUpdateIsNotTheRate) {
  RunConfig config;
  config.training.gradient_clipping = 0.0;
  config.training.precision = Precision::kBf16Autocast;
  const std::string advice = divergence_advice(config, 0, 0.0);
  EXPECT_THAT(advice, HasSubstr("model.initializer_range (0.02)"));
  EXPECT_THAT(advice, HasSubstr("training.precision = \"fp32\""));
  EXPECT_THAT(advice, Not(HasSubstr("optimizer.lr")));
  EXPECT_THAT(advice, Not(HasSubstr("clipping")));
}

TEST(LossRecord, TellsALossThatWentBackUp) {
  EXPECT_FALSE(losses({}).has_diverged());
  EXPECT_FALSE(losses({5.0}).has_diverged());
  EXPECT_FALSE(losses({5.0, 4.0, 3.0}).has_diverged());
  EXPECT_FALSE(losses({5.0, 3.0, 3.5}).has_diverged());
  EXPECT_TRUE(losses({5.0, 3.0, 4.5}).has_diverged());
  EXPECT_TRUE(losses({5.0, 7.0}).has_diverged());
}

TEST(LossRecord, LeavesOutWhatFp16Skipped) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(losses({nan, 5.0, 4.0, 3.0}).has_diverged());
  EXPECT_FALSE(losses({5.0, 4.0, nan, infinity, 3.0}).has_diverged());
  EXPECT_FALSE(losses({5.0, 3.0, nan}).has_diverged());
  EXPECT_TRUE(losses({5.0, infinity, 7.0, nan}).has_diverged());
  EXPECT_EQ(losses({nan, 5.0, nan}).first(), 5.0);
  EXPECT_EQ(losses({nan, 5.0, nan}).last(), 5.0);
}

TEST(BatchAdvice, IsGivenWhereTheRunLearnt) {
  EXPECT_THAT(batch_advice(1000, 16, losses({5.0, 3.0})),
              HasSubstr("a larger batch would pay"));
  const std::string diverged = batch_advice(1000, 16, losses({5.0, 7.0}));
  EXPECT_THAT(diverged, Not(HasSubstr("would")));
  EXPECT_THAT(diverged, HasSubstr("first 5.0000, last 7.0000"));
}

}  // namespace
}  // namespace triax
