// SPDX-License-Identifier: Apache-2.0
#include "triax/train/replay.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "triax/train/trajectory.h"

namespace triax {
namespace {

const Overrides kRun = {"training.precision=fp32",
                        "training.gradient_clipping=0.05",
                        "optimizer.freeze=[\"*o_proj*\"]",
                        "optimizer.group=[{pattern=\"*mlp*\", lr=5e-3, "
                        "weight_decay=0.5}]"};

bool is_end_of(const Trajectory& run, const RunConfig& config) {
  const Replay replay = replay_optimizer(config, run.start, run.gradients);
  for (const auto& [name, weight] : run.end) {
    if (!at::equal(weight, replay.weights.at(name))) {
      return false;
    }
  }
  return true;
}

class ReplayOfOneRank : public testing::Test {
 protected:
  const RunConfig config_ = checked_tiny_run(kRun);
  const Trajectory run_ = record_alone(config_, 3);
};

TEST_F(ReplayOfOneRank, EndsAtItsWeightsBitForBit) {
  EXPECT_TRUE(is_end_of(run_, config_));
  const Replay replay = replay_optimizer(config_, run_.start, run_.gradients);
  ASSERT_EQ(replay.norms.size(), run_.norms.size());
  for (size_t step = 0; step < run_.norms.size(); ++step) {
    EXPECT_NEAR(replay.norms[step], run_.norms[step], 1e-9 * run_.norms[step]);
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
  Trajectory changed = run_;
  changed.gradients[1].begin()->second.mul_(1.5);
  EXPECT_FALSE(is_end_of(changed, config_));
}

}  // namespace
}  // namespace triax
