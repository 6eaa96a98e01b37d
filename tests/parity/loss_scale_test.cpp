// SPDX-License-Identifier: Apache-2.0
// fp16's loss scale: what an overflow leaves as it was, on every rank.
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <mutex>

#include "tests/support/layout_run.h"
#include "triax/base/error.h"
#include "triax/optim/lr_schedule.h"

namespace triax {
namespace {

using testing::HasSubstr;

/// What must stay in its bits when a step is skipped.
std::vector<at::Tensor> state_of(Trainer& trainer) {
  std::vector<at::Tensor> state;
  for (const ParameterSlot* slot : trainer.rank_model().slots) {
    state.push_back(slot->tensor.detach().clone());
  }
  for (const OptimizerState& entry : trainer.trained().optimizer().states()) {
    state.push_back(entry.tensor.clone());
  }
  return state;
}

void expect_same_state(const std::vector<at::Tensor>& a,
                       const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i], b[i])) << i;
  }
}

/// Makes the next gradients of one rank overflow, in a parameter whose copies
/// and squares other ranks may count.
void overflow_on(Trainer& trainer, DeviceMesh& mesh, int rank) {
  trainer.on_gradients = [&trainer, &mesh, rank] {
    if (mesh.rank() == rank) {
      for (const ParameterSlot* slot : trainer.rank_model().slots) {
        if (slot->layout.name.ends_with("attention_norm.weight")) {
          slot->tensor.grad()[0].fill_(std::numeric_limits<double>::infinity());
        }
      }
    }
  };
}

class Case25 : public testing::TestWithParam<const char*> {};

// An overflow that one rank sees is skipped by all.
TEST_P(Case25, AnOverflowOnOneRankIsASkipOnAll) {
  const RunConfig config = checked_tiny_run(
      plan_overrides(GetParam()) +
      Overrides{"training.precision=fp16", "optimizer.schedule=linear"});
  for (int rank = 0; rank < config.world_size(); ++rank) {
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      const StepStats first = trainer.step();
      EXPECT_FALSE(first.is_skipped);
      EXPECT_EQ(first.loss_scale, 65536.0);
      const auto before = state_of(trainer);
      overflow_on(trainer, mesh, rank);
      const StepStats skipped = trainer.step();
      trainer.on_gradients = nullptr;
      EXPECT_TRUE(skipped.is_skipped) << rank;
      EXPECT_EQ(skipped.num_skipped, 1);
      EXPECT_EQ(trainer.loss_scale().value(), 32768.0);
      EXPECT_EQ(trainer.trained().num_updates(), 1);
      EXPECT_EQ(trainer.steps_done(), 2);
      expect_same_state(before, state_of(trainer));
      // The rate is that of the update that was not made.
      const StepStats next = trainer.step();
      EXPECT_FALSE(next.is_skipped);
      EXPECT_EQ(next.loss_scale, 32768.0);
      EXPECT_EQ(next.lr,
                learning_rate(config.optimizer, config.training.steps, 1));
      EXPECT_EQ(skipped.lr, next.lr);
      EXPECT_EQ(trainer.trained().num_updates(), 2);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         Case25,
                         testing::Values("tp2", "pp2", "dp2", "dp2_zero1"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

/// Loss and norm of the first step.
StepStats first_step(const Overrides& overrides) {
  StepStats first;
  train_layout(checked_tiny_run(Overrides{"parallel.tp=2"} + overrides),
               [&](Trainer& trainer, DeviceMesh& mesh) {
                 const StepStats stats = trainer.step();
                 if (mesh.rank() == 0) {
                   first = stats;
                 }
               });
  return first;
}

// The scale is taken out again, whatever it is.
TEST(LossScaleOfARun, LeavesLossAndNormAsTheyAre) {
  const StepStats small = first_step(
      {"training.precision=fp16", "training.initial_loss_scale=256"});
  const StepStats large = first_step(
      {"training.precision=fp16", "training.initial_loss_scale=1024"});
  const StepStats wide = first_step({"training.precision=fp32"});
  EXPECT_EQ(small.loss_scale, 256);
  EXPECT_EQ(large.loss_scale, 1024);
  EXPECT_EQ(small.loss, large.loss);
  EXPECT_NEAR(small.grad_norm, large.grad_norm, 1e-3 * large.grad_norm);
  EXPECT_NEAR(small.grad_norm, wide.grad_norm, 1e-2 * wide.grad_norm);
}

TEST(LossScaleOfARun, StopsWithADiagnosisWhereItCannotBeHalved) {
  const RunConfig config =
      checked_tiny_run({"parallel.tp=2", "training.precision=fp16"});
  std::mutex mutex;
  std::vector<std::string> told;
  train_layout(config,
               [&](Trainer& trainer, DeviceMesh& mesh) {
                 overflow_on(trainer, mesh, 1);
                 const auto before = state_of(trainer);
                 for (int i = 0; i < 16; ++i) {
                   EXPECT_TRUE(trainer.step().is_skipped);
                 }
                 EXPECT_EQ(trainer.loss_scale().value(), 1.0);
                 std::string text;
                 try {
                   trainer.step();
                 } catch (const Error& error) {
                   text = error.what();
                 }
                 expect_same_state(before, state_of(trainer));
                 const std::lock_guard lock(mutex);
                 told.push_back(text);
               },
               {.on_failure = [](const std::exception&) {}});
  ASSERT_EQ(told.size(), 2u);
  for (const std::string& text : told) {
    EXPECT_THAT(text, HasSubstr("training.min_loss_scale = 1"));
    EXPECT_THAT(text, HasSubstr("16 steps in a row were skipped"));
    EXPECT_THAT(text, HasSubstr("training.precision = \"bf16\""));
  }
}

// A weight that overflows in forward: no scale helps, and the message says so.
TEST(LossScaleOfARun, SaysWhereTheLossItselfOverflows) {
  const RunConfig config = checked_tiny_run({"training.precision=fp16",
                                             "training.initial_loss_scale=1",
                                             "model.initializer_range=3e4"});
  train_layout(config,
               [&](Trainer& trainer, DeviceMesh&) {
                 std::string text = "no error";
                 try {
                   trainer.step();
                 } catch (const Error& error) {
                   text = error.what();
                 }
                 EXPECT_THAT(text, HasSubstr("activations overflow fp16"));
               },
               {.on_failure = [](const std::exception&) {}});
}

TEST(LossScaleOfARun, DoublesAfterItsWindow) {
  const RunConfig config = checked_tiny_run({"parallel.pp=2",
                                             "training.precision=fp16",
                                             "training.initial_loss_scale=64",
                                             "training.loss_scale_window=2"});
  train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
    std::vector<double> scales;
    for (int step = 0; step < 5; ++step) {
      scales.push_back(trainer.step().loss_scale);
    }
    EXPECT_THAT(scales, testing::ElementsAre(64, 64, 128, 128, 256));
  });
}

TEST(VerifyOfFp16, ProvesNothingWhereGradientsOverflow) {
  const VerifyReport report = verify_layout(
      checked_tiny_run({"parallel.tp=2",
                        "training.precision=fp16",
                        "training.initial_loss_scale=4294967296"}));
  EXPECT_FALSE(report.is_equal());
  EXPECT_FALSE(report.is_different()) << to_text(report);
  EXPECT_THAT(report.dead, HasSubstr("training.initial_loss_scale"));
}

}  // namespace
}  // namespace triax
