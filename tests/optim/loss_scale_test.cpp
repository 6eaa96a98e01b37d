// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/loss_scale.h"

#include <gtest/gtest.h>

namespace triax {
namespace {

TrainingConfig fp16_config() {
  TrainingConfig config;
  config.precision = Precision::kFp16;
  return config;
}

TEST(LossScale, HalvesSixteenTimesFrom65536ToOne) {
  LossScale scale(fp16_config());
  EXPECT_EQ(scale.value(), 65536.0);
  scale.add_overflow();
  EXPECT_EQ(scale.value(), 32768.0);
  EXPECT_FALSE(scale.is_at_minimum());
  for (int i = 1; i < 16; ++i) {
    scale.add_overflow();
  }
  EXPECT_EQ(scale.value(), 1.0);
  EXPECT_TRUE(scale.is_at_minimum());
  EXPECT_EQ(scale.num_overflows(), 16);
  EXPECT_EQ(scale.num_in_a_row(), 16);
}

TEST(LossScale, DoublesAfterAWindowOfGoodStepsInARow) {
  TrainingConfig config = fp16_config();
  config.loss_scale_window = 3;
  LossScale scale(config);
  scale.add_good_step();
  scale.add_good_step();
  scale.add_overflow();  // the window begins again
  scale.add_good_step();
  scale.add_good_step();
  EXPECT_EQ(scale.value(), 32768.0);
  EXPECT_EQ(scale.num_in_a_row(), 0);
  scale.add_good_step();
  EXPECT_EQ(scale.value(), 65536.0);
  scale.add_good_step();
  EXPECT_EQ(scale.value(), 65536.0);
}

TEST(LossScale, StaysBetweenItsBounds) {
  TrainingConfig config = fp16_config();
  config.loss_scale_window = 1;
  config.min_loss_scale = 3.0;
  config.initial_loss_scale = kMaxLossScale;
  LossScale scale(config);
  scale.add_good_step();
  EXPECT_EQ(scale.value(), kMaxLossScale);
  for (int i = 0; i < 40; ++i) {
    scale.add_overflow();
  }
  EXPECT_EQ(scale.value(), 3.0);
}

TEST(LossScale, IsOneInOtherPrecisions) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    TrainingConfig config = fp16_config();
    config.precision = precision;
    config.loss_scale_window = 1;
    LossScale scale(config);
    scale.add_good_step();
    EXPECT_FALSE(scale.is_dynamic());
    EXPECT_EQ(scale.value(), 1.0);
  }
}

}  // namespace
}  // namespace triax
