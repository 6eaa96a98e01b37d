// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
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

/// The same where it is a forward pass that is no step.
std::string failure_of_forward(const std::string& plan) {
  const RunConfig config = checked_tiny_run(plan_overrides(plan));
  try {
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      const bool is_last = mesh.rank() == config.world_size() - 1;
      trainer.step();
      for (int pass = 0; pass < 4; ++pass) {
        trainer.forward_pass([&] {
          trainer.rank_model().slots.front()->tensor.sum();
          if (is_last && pass == 1) {
            throw Error("broken on purpose");
          }
          mesh.world().barrier();
        });
      }
    });
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Failure, AForwardPassThatThrowsOnOneRankEndsAllOfThem) {
  for (const char* plan : {"dp2", "tp2", "pp2", "dp2_zero3", "dp2_tp2_zero3"}) {
    EXPECT_THAT(failure_of_forward(plan),
                testing::HasSubstr("broken on purpose"))
        << plan;
  }
}

TEST(Failure, OfAForwardPassIsTold) {
  std::string told;
  const auto run = [&](Trainer& trainer, DeviceMesh&) {
    trainer.forward_pass([] { throw Error("broken on purpose"); });
  };
  EXPECT_THROW(train_layout(checked_tiny_run({}),
                            run,
                            {.on_failure =
                                 [&](const std::exception& error) {
                                   told = error.what();
                                 }}),
               Error);
  EXPECT_EQ(told, "broken on purpose");
}

/// What a second call says after one that threw.
std::string second_failure(const std::function<void(Trainer&)>& first,
                           const std::function<void(Trainer&)>& second) {
  std::string told = "no error";
  train_layout(checked_tiny_run({}),
               [&](Trainer& trainer, DeviceMesh&) {
                 EXPECT_THROW(first(trainer), Error);
                 try {
                   second(trainer);
                 } catch (const Error& error) {
                   told = error.what();
                 }
               },
               {.on_failure = [](const std::exception&) {}});
  return told;
}

TEST(Failure, LeavesATrainerThatRefusesToGoOn) {
  const auto break_step = [](Trainer& trainer) {
    trainer.on_gradients = [] { throw Error("broken on purpose"); };
    trainer.step();
  };
  const auto break_pass = [](Trainer& trainer) {
    trainer.forward_pass([] { throw Error("broken on purpose"); });
  };
  const auto step = [](Trainer& trainer) { trainer.step(); };
  const auto pass = [](Trainer& trainer) { trainer.forward_pass([] {}); };
  for (const auto& first : {std::function<void(Trainer&)>(break_step),
                            std::function<void(Trainer&)>(break_pass)}) {
    for (const auto& second : {std::function<void(Trainer&)>(step),
                               std::function<void(Trainer&)>(pass)}) {
      EXPECT_THAT(
          second_failure(first, second),
          testing::HasSubstr("ended halfway (broken on purpose), so its"));
    }
  }
}

// A gradient that is not finite changes nothing, so that a caller may go on.
TEST(Failure, OfALossThatIsNotFiniteLeavesTheTrainerWhole) {
  bool is_broken = true;
  const auto step = [&](Trainer& trainer) {
    trainer.on_gradients = [&] {
      if (is_broken) {
        trainer.rank_model().slots.front()->tensor.grad().fill_(NAN);
      }
    };
    trainer.step();
  };
  const std::string told = second_failure(step, [&](Trainer& trainer) {
    is_broken = false;
    step(trainer);
    EXPECT_EQ(trainer.steps_done(), 1);
  });
  EXPECT_EQ(told, "no error");
}

}  // namespace
}  // namespace triax
