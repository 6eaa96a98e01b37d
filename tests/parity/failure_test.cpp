// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/layout_run.h"
#include "triax/base/error.h"

namespace triax {
namespace {

/// What the run of a plan throws when its last rank throws in its second step,
/// while the others go on to operations that it will never join.
std::string failure_of(const std::string& plan) {
  const RunConfig config = checked_tiny_run(plan_overrides(plan));
  try {
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      const bool is_last = mesh.rank() == config.world_size() - 1;
      trainer.on_gradients = [&trainer, is_last] {
        if (is_last && trainer.steps_done() == 1) {
          throw Error("broken on purpose");
        }
      };
      for (int step = 0; step < 4; ++step) {
        trainer.step();
      }
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Failure, AStepThatThrowsOnOneRankEndsAllOfThem) {
  for (const char* plan : {"dp2", "tp2", "pp2", "dp2_tp2_pp2"}) {
    EXPECT_THAT(failure_of(plan), testing::HasSubstr("broken on purpose"))
        << plan;
  }
}

}  // namespace
}  // namespace triax
