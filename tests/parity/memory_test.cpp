// SPDX-License-Identifier: Apache-2.0
// What training and verify hold at once, counted at LibTorch's allocator.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/allocated_bytes.h"
#include "tests/support/layout_run.h"
#include "tests/support/run_ranks.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/model_stats.h"
#include "triax/plan/reference_runs.h"

namespace triax {
namespace {

/// Half a million parameters and few tokens: the weights are what counts.
const Overrides kHeavy = {"model.vocab_size=4096",
                          "model.hidden_size=64",
                          "training.global_batch_size=4",
                          "training.microbatch_size=1"};

int64_t weight_bytes(const RunConfig& config) {
  return num_parameters(config.model) *
         dtype_bytes(parameter_dtype(config.training.precision));
}

int64_t peak_of_verify(const RunConfig& config, int64_t num_steps) {
  const int64_t before = allocated_bytes();
  reset_peak_allocated_bytes();
  const VerifyReport report = verify_layout(config, {.num_steps = num_steps});
  EXPECT_TRUE(report.is_equal()) << to_text(report);
  return peak_allocated_bytes() - before;
}

class VerifyHolds : public testing::TestWithParam<const char*> {
 protected:
  RunConfig config(const std::string& plan) const {
    return checked_tiny_run(
        plan_overrides(plan) + kHeavy +
        Overrides{std::string("training.precision=") + GetParam()});
  }
};

TEST_P(VerifyHolds, NoMoreWithMoreSteps) {
  const RunConfig run = config("dp2_tp2");
  const int64_t few = peak_of_verify(run, 2);
  const int64_t many = peak_of_verify(run, 6);
  EXPECT_LT(many - few, weight_bytes(run) / 4);
}

TEST_P(VerifyHolds, WhatIsPredicted) {
  for (const char* plan : {"tp2", "dp2_tp2", "pp2"}) {
    const RunConfig run = config(plan);
    const VerifyMemory memory = predict_verify_memory(run);
    const auto predicted =
        static_cast<double>(memory.layout_bytes + memory.reference_bytes);
    const double held = static_cast<double>(peak_of_verify(run, 2));
    EXPECT_LT(held, 1.05 * predicted) << plan;
    EXPECT_GT(held, 0.8 * predicted) << plan;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions,
                         VerifyHolds,
                         testing::Values("fp64", "fp32", "bf16_autocast"));

/// Peaks of all ranks together while they start and in a step.
struct Peaks {
  int64_t model = 0;    // drawing the weights
  int64_t weights = 0;  // what is left of that
  int64_t start = 0;
  int64_t step = 0;
};

Peaks peaks_of(const RunConfig& config) {
  Peaks peaks;
  const int64_t before = allocated_bytes();
  const auto measure = [&](DeviceMesh& mesh, int64_t& peak) {
    mesh.world().barrier();
    if (mesh.rank() == 0) {
      peak = peak_allocated_bytes() - before;
      reset_peak_allocated_bytes();
    }
    mesh.world().barrier();
  };
  run_ranks_on_board(
      config.world_size(),
      [&](std::unique_ptr<Group> world, const std::shared_ptr<Board>& board) {
        DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
        int64_t ignored = 0;
        measure(mesh, ignored);
        {
          const RankModel rank_model = build_rank_model(config, mesh);
          measure(mesh, peaks.model);
          measure(mesh, peaks.weights);
        }
        measure(mesh, ignored);
        Recorder recorder(board, mesh.rank());
        Trainer trainer(config, mesh, recorder);
        measure(mesh, peaks.start);
        trainer.step();
        measure(mesh, peaks.step);
      });
  return peaks;
}

TEST(StartHolds, OnlyWhatTheRanksOwnAndNoMoreThanAStep) {
  for (const char* plan : {"tp1", "tp4", "pp2", "dp2_tp2_pp2"}) {
    for (const char* family : {"llama", "gpt2"}) {
      const RunConfig config =
          checked_tiny_run(plan_overrides(plan) + kHeavy +
                           Overrides{"training.precision=fp32",
                                     std::string("model.family=") + family});
      const Peaks peaks = peaks_of(config);
      int64_t stored = 0;
      for (const StageMemory& stage : predict_memory(config)) {
        stored += stage.bytes_of(MemoryKind::kParameters) * config.parallel.tp *
                  config.parallel.dp;
      }
      const std::string what = std::string(plan) + " " + family;
      EXPECT_LT(peaks.weights, stored + stored / 20) << what;
      EXPECT_LT(peaks.model, stored + stored / 20) << what;
      EXPECT_LE(peaks.start, peaks.step) << what;
    }
  }
}

}  // namespace
}  // namespace triax
