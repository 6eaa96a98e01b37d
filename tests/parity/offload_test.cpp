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

const std::string kOptimizer = "\"optimizer\"";
const std::string kGradients = "\"optimizer\", \"gradients\"";

const std::string kAll = kGradients + ", \"parameters\"";

struct OffloadCase {
  std::string name;
  Overrides overrides;
  std::string states = kOptimizer;
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
  expect_same_bits(
      run_of(base + on_file(GetParam().states)), run_of(base), GetParam().name);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

std::vector<OffloadCase> cases() {
  return {
      {"dp1", {"training.precision=fp32"}},
      {"dp1_groups",
       {"optimizer.group=[{pattern=\"*mlp*\", lr=5e-3, weight_decay=0.5}]",
        "optimizer.freeze=[\"*o_proj*\"]"}},
      {"dp1_momentum",
       {"optimizer.name=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9"}},
      {"tp2_pp2",
       {"parallel.tp=2", "parallel.pp=2", "model.tie_word_embeddings=true"}},
      {"dp2_zero1",
       {"parallel.dp=2",
        "parallel.zero=1",
        "training.precision=fp32",
        "parallel.bucket_bytes=3000"}},
      {"dp3_zero2",
       {"parallel.dp=3",
        "parallel.zero=2",
        "training.precision=bf16_autocast"}},
      {"dp4_zero2_group2",
       {"parallel.dp=4",
        "parallel.zero=2",
        "parallel.zero_group=2",
        "parallel.bucket_bytes=1"}},
      {"gradients_dp2_zero2",
       {"parallel.dp=2",
        "parallel.zero=2",
        "training.precision=fp32",
        "optimizer.freeze=[\"*o_proj*\"]"},
       kGradients},
      {"gradients_dp1_zero2", {"parallel.zero=2"}, kGradients},
      {"gradients_dp2_pp2_zero2_tied",
       {"parallel.dp=2",
        "parallel.pp=2",
        "parallel.zero=2",
        "parallel.bucket_bytes=3000",
        "model.tie_word_embeddings=true"},
       kGradients},
      {"gradients_dp2_tp2_zero2_kv",
       {"parallel.dp=2",
        "parallel.tp=2",
        "parallel.zero=2",
        "parallel.sequence_parallel=true",
        "model.num_key_value_heads=1"},
       kGradients},
      {"gradients_dp4_zero2_group2",
       {"parallel.dp=4",
        "parallel.zero=2",
        "parallel.zero_group=2",
        "parallel.bucket_bytes=1"},
       kGradients},
      {"optimizer_dp2_zero3", {"parallel.dp=2", "parallel.zero=3"}},
      {"all_dp2_zero3",
       {"parallel.dp=2", "parallel.zero=3", "training.precision=fp32"},
       kAll},
      {"all_dp3_zero3_frozen",
       {"parallel.dp=3",
        "parallel.zero=3",
        "parallel.prefetch=0",
        "parallel.bucket_bytes=3000",
        "optimizer.freeze=[\"*o_proj*\"]"},
       kAll},
      {"optimizer_dp2_bf16", {"parallel.dp=2", "training.precision=bf16"}},
      {"all_dp2_zero3_bf16",
       {"parallel.dp=2", "parallel.zero=3", "training.precision=bf16"},
       kAll},
      {"gradients_dp2_zero2_fp16",
       {"parallel.dp=2",
        "parallel.zero=2",
        "parallel.reduce_dtype=bf16",
        "training.precision=fp16"},
       kGradients},
      {"gradients_dp2_zero2_group1",
       {"parallel.dp=2",
        "parallel.zero=2",
        "parallel.zero_group=1",
        "parallel.reduce_dtype=bf16"},
       kGradients},
      {"all_dp2_tp2_zero3",
       {"parallel.dp=2",
        "parallel.tp=2",
        "parallel.zero=3",
        "parallel.reshard_after_forward=false"},
       kAll},
      {"all_dp2_pp2_zero3_tied",
       {"parallel.dp=2",
        "parallel.pp=2",
        "parallel.zero=3",
        "memory.recompute=full",
        "model.tie_word_embeddings=true"},
       kAll},
      {"all_dp4_zero3_group2",
       {"parallel.dp=4", "parallel.zero=3", "parallel.zero_group=2"},
       kAll},
  };
}

INSTANTIATE_TEST_SUITE_P(Layouts,
                         OffloadBits,
                         testing::ValuesIn(cases()),
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

// Gradients are read, added to and written in each microbatch, but for the
// first, and read for the update.
TEST_F(Offload, MovesGradientsInEachMicrobatch) {
  const Overrides overrides = plan_overrides("dp2_zero2") +
                              on_file(kGradients) +
                              Overrides{"training.microbatch_size=1"};
  const RunConfig config = checked_tiny_run(overrides);
  run_of(overrides, 3, [&](Trainer& trainer, DeviceMesh& mesh) {
    const TrainedParameters& trained = trainer.trained();
    const SpilledArrays& arrays = trained.offloaded()->arrays();
    EXPECT_EQ(arrays.nbytes(), disk_bytes(config, mesh.coord().pp));
    EXPECT_EQ(trained.gradient_bytes(), 0);
    EXPECT_EQ(this_rank_memory().use().current[MemoryCategory::kGradients], 0);
    EXPECT_GT(trained.bucket_bytes(), 0);
    const IoBytes moved = arrays.file().moved();
    EXPECT_GE(moved.read, trainer.steps_done() * arrays.nbytes());
    EXPECT_GE(moved.written, trainer.steps_done() * arrays.nbytes());
  });
}

// And parameters at least once for each gathering's rank, and for the update.
TEST_F(Offload, MovesParametersWithTheirUnits) {
  const Overrides overrides =
      plan_overrides("dp2_zero3") + on_file(kAll) +
      Overrides{"optimizer.freeze=[\"model.layers.0.*\"]"};
  const RunConfig config = checked_tiny_run(overrides);
  run_of(overrides, 3, [&](Trainer& trainer, DeviceMesh& mesh) {
    const TrainedParameters& trained = trainer.trained();
    EXPECT_EQ(trained.offloaded()->nbytes(),
              disk_bytes(config, mesh.coord().pp));
    EXPECT_EQ(trained.parameter_bytes(), 0);
    // Rotary frequencies alone.
    EXPECT_LE(this_rank_memory().use().current[MemoryCategory::kParameters],
              config.model.head_dim / 2 * int64_t{sizeof(float)});
    EXPECT_GE(trained.offloaded()->moved().read,
              trainer.steps_done() * trained.offloaded()->nbytes());
  });
}

// Parts of many small buckets fill a block of the file each.
TEST_F(Offload, TakesNoMoreThanIsPredictedWhateverTheBuckets) {
  struct Case {
    const char* plan;
    std::string states;
  };
  for (const Case& each : {Case{"dp1_zero2", kGradients},
                           Case{"dp2_zero2", kGradients},
                           Case{"dp2_pp2_zero3", kGradients},
                           Case{"dp2_zero3", kAll}}) {
    for (const char* bucket : {"1", "3000", "25MiB"}) {
      for (const char* more : {"parallel.prefetch=1",
                               "parallel.prefetch=3",
                               "parallel.reduce_dtype=bf16"}) {
        const Overrides overrides =
            plan_overrides(each.plan) + on_file(each.states) +
            Overrides{"training.microbatch_size=1",
                      "training.precision=fp32",
                      std::string("parallel.bucket_bytes=\"") + bucket + "\"",
                      more};
        const RunConfig config = checked_tiny_run(overrides);
        run_of(overrides, 3, [&](Trainer& trainer, DeviceMesh& mesh) {
          const StageMemory stage = predict_memory(config).at(mesh.coord().pp);
          const auto name = testing::Message()
                            << each.plan << " bucket " << bucket << " " << more;
          const int64_t windows = stage.bytes_of(MemoryKind::kWindows);
          EXPECT_LE(trainer.trained().bucket_bytes(),
                    stage.bytes_of(MemoryKind::kBuckets) + windows)
              << name;
          const MemoryBytes& largest = this_rank_memory().use().largest;
          EXPECT_LE(largest[MemoryCategory::kGradients],
                    stage.bytes_of(MemoryKind::kGradients) +
                        stage.bytes_of(MemoryKind::kBuckets) + windows)
              << name;
          EXPECT_LE(largest[MemoryCategory::kParameters],
                    stage.bytes_of(MemoryKind::kParameters) +
                        stage.bytes_of(MemoryKind::kGathered) + windows +
                        config.model.head_dim / 2 * int64_t{sizeof(float)})
              << name;
        });
      }
    }
  }
}

TEST_F(Offload, VerifyComparesWithOneRankInMemory) {
  for (const std::string& states : {kOptimizer, kGradients, kAll}) {
    const VerifyReport report = verify_layout(checked_tiny_run(
        plan_overrides("dp2_zero3") + Overrides{"training.precision=bf16"} +
        on_file(states)));
    EXPECT_TRUE(report.is_equal()) << to_text(report);
  }
}

// Groups of one replica split nothing, and sum over all replicas nevertheless.
TEST_F(Offload, GroupsOfOneReplicaEqualOneRank) {
  const VerifyReport report = verify_layout(checked_tiny_run(
      plan_overrides("dp2_zero2_group1") + on_file(kGradients)));
  EXPECT_TRUE(report.is_equal()) << to_text(report);
}

// They are told of each microbatch's gradients, whatever the groups.
TEST_F(Offload, PartsOfTheBatchAreMicrobatches) {
  const RunConfig config = checked_tiny_run(plan_overrides("dp2_zero2_group1") +
                                            on_file(kGradients));
  train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
    trainer.step();
    EXPECT_GT(config.num_microbatches(), 1);
    EXPECT_EQ(trainer.trained().num_parts(), 2 * config.num_microbatches());
  });
}

// What makes a split wrong makes it wrong on file.
TEST_F(Offload, VerifyFindsWhatIsForgotten) {
  for (const Break broken :
       {Break::kLastMicrobatchOnly, Break::kRescaleRunningSum}) {
    const VerifyReport report = verify_layout(
        checked_tiny_run(plan_overrides("dp2_zero2") + on_file(kGradients) +
                         Overrides{"training.microbatch_size=1"}),
        {.num_steps = 2, .broken = broken});
    EXPECT_FALSE(report.is_equal());
  }
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
