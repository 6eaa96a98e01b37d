// SPDX-License-Identifier: Apache-2.0
// States on file against states in memory: the same bits, and the bytes that
// are moved for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/support/layout_run.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/some_steps.h"
#include "triax/memory/tracker.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

/// Offloaded to a folder of the test's own.
class Offload : public testing::Test {
 protected:
  Overrides on_file(const std::string& states = "\"optimizer\"") const {
    return {"memory.offload=nvme",
            "memory.offload_states=[" + states + "]",
            "memory.offload_dir=" + folder_.path().string()};
  }

  ScratchFolder folder_;
};

struct OffloadCase {
  std::string name;
  Overrides overrides;
};

void PrintTo(const OffloadCase& offload_case, std::ostream* out) {
  *out << offload_case.name;
}

class OffloadBits : public Offload,
                    public testing::WithParamInterface<OffloadCase> {};

TEST_P(OffloadBits, AreThoseInMemory) {
  const Overrides base =
      GetParam().overrides + Overrides{"training.gradient_clipping=0.05",
                                       "training.microbatch_size=1"};
  expect_same_bits(run_of(base + on_file()), run_of(base), GetParam().name);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    OffloadBits,
    testing::Values(OffloadCase{"dp1", {"training.precision=fp32"}},
                    OffloadCase{
                        "dp1_groups",
                        {"optimizer.group=[{pattern=\"*mlp*\", lr=5e-3, "
                         "weight_decay=0.5}]",
                         "optimizer.freeze=[\"*o_proj*\"]"}},
                    OffloadCase{"dp1_momentum",
                                {"optimizer.name=sgd",
                                 "optimizer.lr=0.1",
                                 "optimizer.momentum=0.9"}},
                    OffloadCase{"tp2_pp2",
                                {"parallel.tp=2",
                                 "parallel.pp=2",
                                 "model.tie_word_embeddings=true"}},
                    OffloadCase{"dp2_zero1",
                                {"parallel.dp=2",
                                 "parallel.zero=1",
                                 "training.precision=fp32",
                                 "parallel.bucket_bytes=3000"}},
                    OffloadCase{"dp3_zero2",
                                {"parallel.dp=3",
                                 "parallel.zero=2",
                                 "training.precision=bf16_autocast"}},
                    OffloadCase{"dp4_zero2_group2",
                                {"parallel.dp=4",
                                 "parallel.zero=2",
                                 "parallel.zero_group=2",
                                 "parallel.bucket_bytes=1"}}),
    [](const auto& info) { return info.param.name; });

int64_t disk_bytes(const RunConfig& config, int pp) {
  return predict_memory(config).at(pp).disk_bytes();
}

// What is on file is in no rank's memory between two steps, is as large as
// predicted, and is read and written once a step.
TEST_F(Offload, MovesTheWholeStateOnceAStep) {
  for (const char* plan : {"dp1", "tp2_pp2", "dp2_zero1", "dp3_zero2"}) {
    const Overrides overrides = plan_overrides(plan) + on_file();
    const RunConfig config = checked_tiny_run(overrides);
    IoBytes before;
    run_of(overrides, 2, [&](Trainer& trainer, DeviceMesh& mesh) {
      const SpilledArrays& arrays = trainer.trained().offloaded()->arrays();
      EXPECT_EQ(arrays.nbytes(), disk_bytes(config, mesh.coord().pp)) << plan;
      EXPECT_GE(arrays.nbytes(), trainer.trained().optimizer_bytes());
      EXPECT_EQ(this_rank_memory().use().current[MemoryCategory::kOptimizer], 0)
          << plan;
      const IoBytes moved = arrays.file().moved();
      const auto owned =
          static_cast<double>(trainer.trained().optimizer_bytes());
      const auto steps = static_cast<double>(trainer.steps_done());
      EXPECT_GE(static_cast<double>(moved.read), steps * owned) << plan;
      EXPECT_GE(static_cast<double>(moved.written), steps * owned) << plan;
      EXPECT_LE(moved.read, trainer.steps_done() * arrays.nbytes()) << plan;
    });
  }
}

TEST_F(Offload, VerifyComparesWithOneRankInMemory) {
  const VerifyReport report =
      verify_layout(checked_tiny_run(plan_overrides("dp2_zero1") + on_file()));
  EXPECT_TRUE(report.is_equal()) << to_text(report);
}

TEST_F(Offload, TwoRunsMayShareAFolder) {
  const Overrides overrides = plan_overrides("dp2_zero1") + on_file();
  SomeSteps first, second;
  std::thread other([&] { second = run_of(overrides); });
  first = run_of(overrides);
  other.join();
  expect_same_bits(second, first, "two runs at once");
}

// A limit that the states alone exceed.
TEST_F(Offload, ALimitBelowTheStateIsEnough) {
  const Overrides large = {"model.hidden_size=384",
                           "model.intermediate_size=1032",
                           "model.num_hidden_layers=4",
                           "model.vocab_size=4096",
                           "data.sequence_length=16",
                           "training.precision=fp32",
                           "training.global_batch_size=2",
                           "training.microbatch_size=1"};
  const RunConfig in_memory = checked_tiny_run(large);
  const int64_t states = predict_memory(in_memory).at(0).state_bytes();
  const int64_t limit = states * 2 / 3;  // the state is 1.5 times that
  EXPECT_GT(states, 150 << 20);
  const auto train = [&](const RunConfig& config) {
    int64_t peak = 0;
    train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
      this_rank_memory().set_limit(limit);
      trainer.step();
      peak = this_rank_memory().use().peak.total();
    });
    return peak;
  };
  EXPECT_LE(train(checked_tiny_run(large + on_file())), limit);
}

}  // namespace
}  // namespace triax
