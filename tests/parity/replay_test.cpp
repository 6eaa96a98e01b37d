// SPDX-License-Identifier: Apache-2.0
#include "triax/train/replay.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "triax/train/stepped_run.h"

namespace triax {
namespace {

const Overrides kRun = {"training.precision=fp32",
                        "training.gradient_clipping=0.05",
                        "optimizer.freeze=[\"*o_proj*\"]",
                        "optimizer.group=[{pattern=\"*mlp*\", lr=5e-3, "
                        "weight_decay=0.5}]"};

/// What a run leaves, of every step.
struct Recorded {
  TensorMap start;
  std::vector<RunStep> steps;
  TensorMap end;
};

Recorded record(const RunConfig& config, int num_steps) {
  LoneRun alone(config);
  Recorded recorded = {alone.run().weights(), {}, {}};
  for (int step = 0; step < num_steps; ++step) {
    recorded.steps.push_back(alone.run().step());
  }
  recorded.end = alone.run().weights();
  return recorded;
}

bool is_end_of(const Recorded& run, const RunConfig& config) {
  Replay replay(config, run.start);
  for (const RunStep& step : run.steps) {
    replay.step(step.gradients);
  }
  for (const auto& [name, weight] : run.end) {
    if (!at::equal(weight, replay.weights().at(name))) {
      return false;
    }
  }
  return true;
}

class ReplayOfOneRank : public testing::Test {
 protected:
  const RunConfig config_ = checked_tiny_run(kRun);
  const Recorded run_ = record(config_, 3);
};

TEST_F(ReplayOfOneRank, EndsAtItsWeightsBitForBit) {
  EXPECT_TRUE(is_end_of(run_, config_));
  Replay replay(config_, run_.start);
  for (const RunStep& step : run_.steps) {
    EXPECT_NEAR(replay.step(step.gradients), step.norm, 1e-9 * step.norm);
  }
}

// What a trainer could get wrong must show as another end.
TEST_F(ReplayOfOneRank, EndsElsewhereWithOtherSettings) {
  const std::vector<Overrides> others = {
      {"training.gradient_clipping=0.04"},
      {"optimizer.weight_decay=0.2"},
      {"optimizer.freeze=[]"},
      {"optimizer.group=[]"},
      {"optimizer.lr=2e-2"},
      {"optimizer.betas=[0.9, 0.9]"},
      {"optimizer.schedule=constant"},
      {"optimizer.name=sgd", "optimizer.momentum=0.9"}};
  for (const Overrides& other : others) {
    EXPECT_FALSE(is_end_of(run_, checked_tiny_run(kRun + other)))
        << testing::PrintToString(other);
  }
  run_.steps[1].gradients.begin()->second.mul_(1.5);
  EXPECT_FALSE(is_end_of(run_, config_));
}

}  // namespace
}  // namespace triax
