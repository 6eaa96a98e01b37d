// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/base/error.h"

namespace triax {
namespace {

using testing::HasSubstr;

OptimizerConfig make_config(const std::string& schedule) {
  OptimizerConfig config;
  config.schedule = schedule;
  config.lr = 1.0;
  config.min_lr = 0.0;
  config.warmup_steps = 0;
  return config;
}

struct Row {
  std::string schedule;
  double min_lr;
  int64_t warmup_steps;
  int64_t decay_steps;
  int64_t step;
  double expected;
};

// lr 2, 100 steps. The cosine rows are Hugging Face's
// get_cosine_schedule_with_warmup and, with a minimum, Megatron-LM's formula.
const Row kRows[] = {
    {"constant", 0.0, 0, 0, 0, 2.0},
    {"constant", 0.0, 0, 0, 99, 2.0},
    {"constant", 0.5, 0, 0, 200, 2.0},
    {"constant", 0.0, 10, 0, 0, 0.0},
    {"constant", 0.0, 10, 0, 1, 0.2},
    {"constant", 0.0, 10, 0, 9, 1.8},
    {"constant", 0.0, 10, 0, 10, 2.0},
    {"linear", 0.0, 0, 0, 0, 2.0},
    {"linear", 0.0, 0, 0, 50, 1.0},
    {"linear", 0.0, 0, 0, 99, 0.02},
    {"linear", 0.5, 0, 0, 50, 1.25},
    {"linear", 0.0, 20, 0, 5, 0.5},
    {"linear", 0.0, 20, 0, 60, 1.0},
    {"linear", 0.5, 0, 0, 100, 0.5},
    {"linear", 0.5, 0, 0, 1000, 0.5},
    {"cosine", 0.0, 0, 0, 0, 2.0},
    {"cosine", 0.0, 0, 0, 50, 1.0},
    {"cosine", 0.0, 0, 0, 25, 1.7071067811865475},
    {"cosine", 0.0, 20, 0, 40, 1.7071067811865475},
    {"cosine", 0.5, 20, 0, 80, 0.71966991411008932},
    {"cosine", 0.5, 0, 0, 100, 0.5},
    {"cosine", 0.5, 20, 0, 10, 1.0},
    {"wsd", 0.0, 0, 0, 0, 2.0},
    {"wsd", 0.0, 0, 0, 90, 2.0},
    {"wsd", 0.0, 0, 0, 95, 1.0},
    {"wsd", 0.0, 0, 0, 99, 0.2},
    {"wsd", 0.0, 0, 40, 60, 2.0},
    {"wsd", 0.0, 0, 40, 70, 1.5},
    {"wsd", 1.0, 10, 40, 80, 1.5},
    {"wsd", 1.0, 10, 40, 5, 1.0},
    {"wsd", 1.0, 10, 40, 100, 1.0},
};

TEST(LearningRate, FollowsTheTable) {
  for (const Row& row : kRows) {
    OptimizerConfig config = make_config(row.schedule);
    config.lr = 2.0;
    config.min_lr = row.min_lr;
    config.warmup_steps = row.warmup_steps;
    config.decay_steps = row.decay_steps;
    EXPECT_NEAR(learning_rate(config, 100, row.step), row.expected, 1e-14)
        << row.schedule << ", warm-up " << row.warmup_steps << ", step "
        << row.step;
  }
}

TEST(LearningRate, RunsShorterThanTenStepsDecayInOne) {
  const OptimizerConfig config = make_config("wsd");
  EXPECT_EQ(learning_rate(config, 3, 2), 1.0);
  EXPECT_EQ(learning_rate(config, 3, 3), 0.0);
}

TEST(LearningRate, AWarmupAsLongAsTheRunOnlyRises) {
  OptimizerConfig config = make_config("cosine");
  config.warmup_steps = 4;
  EXPECT_EQ(learning_rate(config, 4, 3), 0.75);
  EXPECT_EQ(learning_rate(config, 4, 4), 0.0);
}

std::string error_of(const OptimizerConfig& config) {
  try {
    learning_rate(config, 100, 0);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(LearningRate, RefusesAScheduleThatCannotBe) {
  OptimizerConfig config = make_config("exponential");
  EXPECT_THAT(error_of(config), HasSubstr("\"exponential\""));
  config = make_config("cosine");
  config.warmup_steps = 101;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.warmup_steps (101)"));
  config = make_config("wsd");
  config.warmup_steps = 61;
  config.decay_steps = 40;
  EXPECT_THAT(error_of(config), HasSubstr("(61) plus the decay"));
  config = make_config("linear");
  config.min_lr = 1.5;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.min_lr (1.5)"));
  config.min_lr = -1.0;
  EXPECT_THAT(error_of(config), HasSubstr("must not be negative"));
}

}  // namespace
}  // namespace triax
