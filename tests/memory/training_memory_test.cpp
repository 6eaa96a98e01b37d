// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <string>

#include "tests/support/layout_run.h"
#include "triax/base/process_memory.h"
#include "triax/comm/local.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/data_parallel/flat_parameters.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/tracker.h"
#include "triax/plan/memory_model.h"
#include "triax/train/memory_report.h"

namespace triax {
namespace {

using Category = MemoryCategory;
using testing::HasSubstr;

int64_t predicted(const RunConfig& config, int pp, MemoryKind kind) {
  const StageMemory stage = predict_memory(config).at(pp);
  EXPECT_NE(stage.line_of(kind), nullptr) << kind_name(kind);
  return stage.bytes_of(kind);
}

/// 13.8 M parameters: 221 MB of states.
Overrides tens_of_megabytes() {
  return {"model.hidden_size=384",
          "model.intermediate_size=1032",
          "model.num_hidden_layers=6",
          "model.vocab_size=4096",
          "model.max_position_embeddings=128",
          "data.sequence_length=128",
          "training.precision=fp32",
          "training.global_batch_size=4",
          "training.microbatch_size=2"};
}

/// Of a plan's name, which may end in "_bf16".
Overrides overrides_of(const std::string& plan) {
  const size_t end = plan.find("_bf16");
  return plan_overrides(plan.substr(0, end)) +
         (end == std::string::npos ? Overrides{}
                                   : Overrides{"training.precision=bf16"});
}

TEST(TrainingMemory, StatesAreTheFormulasBytes) {
  for (const char* plan :
       {"dp1", "tp2", "pp2", "dp2_tp2_pp2", "dp1_bf16", "dp2_tp2_pp2_bf16"}) {
    const RunConfig config = checked_tiny_run(overrides_of(plan));
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.step();
      const MemoryBytes current = this_rank_memory().use().current;
      const int pp = mesh.coord().pp;
      // And half a head's rotary frequencies.
      EXPECT_EQ(current[Category::kParameters],
                predicted(config, pp, MemoryKind::kParameters) +
                    config.model.head_dim / 2 * int64_t{sizeof(float)})
          << plan;
      EXPECT_EQ(current[Category::kOptimizer],
                predicted(config, pp, MemoryKind::kOptimizer))
          << plan;
      // Each parameter's part starts at a multiple of 64 elements.
      const int64_t padding = 64 * 8 * trainer.rank_model().slots.size();
      EXPECT_GE(current[Category::kGradients],
                predicted(config, pp, MemoryKind::kGradients))
          << plan;
      EXPECT_LE(current[Category::kGradients],
                predicted(config, pp, MemoryKind::kGradients) + padding)
          << plan;
      // The rotary angles of the sequence's positions.
      EXPECT_LE(current[Category::kActivations], 1 << 10) << plan;
      EXPECT_GT(this_rank_memory().use().largest[Category::kActivations], 0)
          << plan;
    });
  }
}

TEST(TrainingMemory, ZeroTakesTheFormulasBytes) {
  for (const char* plan : {"dp2_zero1",
                           "dp3_zero1",
                           "dp2_zero2",
                           "dp3_zero2",
                           "dp2_pp2_zero2",
                           "dp2_tp2_zero2",
                           "dp2_zero1_bf16",
                           "dp2_tp2_zero2_bf16"}) {
    const RunConfig config = checked_tiny_run(overrides_of(plan));
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.step();
      const MemoryBytes current = this_rank_memory().use().current;
      const int pp = mesh.coord().pp;
      EXPECT_EQ(current[Category::kParameters],
                predicted(config, pp, MemoryKind::kParameters) +
                    config.model.head_dim / 2 * int64_t{sizeof(float)})
          << plan;
      EXPECT_EQ(current[Category::kGradients],
                predicted(config, pp, MemoryKind::kGradients))
          << plan;
      // The rank that owns most has as much as that.
      EXPECT_LE(current[Category::kOptimizer],
                predicted(config, pp, MemoryKind::kOptimizer))
          << plan;
      EXPECT_GT(current[Category::kOptimizer], 0) << plan;
    });
  }
}

// Four microbatches through two stages: at no instant is there more.
TEST(TrainingMemory, Zero2HoldsAShardOfGradientsAndTwoBuckets) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const RunConfig config = checked_tiny_run(
        plan_overrides("dp2_pp2_zero2") +
        Overrides{"training.global_batch_size=8",
                  "training.microbatch_size=1",
                  "parallel.bucket_bytes=3000",
                  "model.tie_word_embeddings=true",
                  std::string("parallel.schedule=") + schedule});
    ASSERT_EQ(config.num_microbatches(), 4);
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.step();
      trainer.step();
      const int pp = mesh.coord().pp;
      EXPECT_EQ(this_rank_memory().use().largest[Category::kGradients],
                predicted(config, pp, MemoryKind::kGradients) +
                    predicted(config, pp, MemoryKind::kBuckets))
          << schedule << " stage " << pp;
    });
  }
}

TEST(TrainingMemory, PipelineStagesHoldTheirLiveMicrobatches) {
  const Overrides gpipe = {"parallel.schedule=gpipe"};
  int64_t largest[2] = {};
  for (const bool is_gpipe : {false, true}) {
    const RunConfig config = checked_tiny_run(plan_overrides("pp2") +
                                              (is_gpipe ? gpipe : Overrides{}));
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.step();
      if (mesh.coord().pp == 0) {
        largest[is_gpipe ? 1 : 0] =
            this_rank_memory().use().largest[Category::kActivations];
      }
    });
  }
  // Six microbatches against two.
  EXPECT_NEAR(static_cast<double>(largest[1]) / largest[0], 3.0, 0.05);
}

// The old tensors are freed bucket by bucket: a limit that holds the
// parameters and two buckets is enough.
TEST(TrainingMemory, FlatParametersHoldOneBucketTwice) {
  const RankMemoryScope rank(make_memory_tracker());
  constexpr int64_t kNumel = 1024;
  constexpr int kCount = 20;
  const int64_t nbytes = kNumel * int64_t{sizeof(float)};
  std::vector<at::Tensor> parameters;
  for (int i = 0; i < kCount; ++i) {
    parameters.push_back(at::full({kNumel}, i, at::kFloat));
  }
  const FlatLayout layout = make_flat_layout(
      numels_of(parameters), {.bucket_numel = 2 * kNumel, .num_shards = 2});
  this_rank_memory().set_limit((kCount + 4) * nbytes);
  const FlatParameters flat(parameters, layout);
  EXPECT_EQ(flat.nbytes(), kCount * nbytes);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(at::equal(parameters[i], at::full({kNumel}, i, at::kFloat)));
  }
}

/// What the tracker and the kernel say that training took.
struct Compared {
  MemoryUse tracked;
  int64_t resident = 0;       // between two steps
  int64_t resident_peak = 0;  // in a step
};

/// From now on VmHWM is of what comes.
void reset_resident_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

/// One rank in this thread, as in a process of its own: memory that another
/// thread frees stays in its part of the heap.
Compared compare_with_resident(const RunConfig& config) {
  const RankMemoryScope rank(make_memory_tracker());
  const auto local = make_local_world(1);
  DeviceMesh mesh(make_parallel_dims(config.parallel), local->join(0));
  Recorder recorder(local->board(), 0);
  malloc_trim(0);
  const int64_t start = process_memory().resident;
  Trainer trainer(config, mesh, recorder);
  trainer.step();
  malloc_trim(0);
  reset_resident_peak();
  trainer.step();
  const int64_t peak = process_memory().peak;
  malloc_trim(0);
  return {.tracked = this_rank_memory().use(),
          .resident = process_memory().resident - start,
          .resident_peak = peak - start};
}

double ratio(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

TEST(TrainingMemory, TheTotalIsWhatTheProcessGrewBy) {
  // No holes in the heap: each tensor has pages of its own.
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
  // The pages of the program that a step runs are no tensors.
  compare_with_resident(checked_tiny_run({"training.precision=fp32"}));
  const Compared compared =
      compare_with_resident(checked_tiny_run(tens_of_megabytes()));
  const int64_t current = compared.tracked.current.total();
  const int64_t peak = compared.tracked.peak.total();
  EXPECT_GT(current, 200 << 20);
  EXPECT_GT(peak, current * 11 / 10);
  EXPECT_NEAR(ratio(compared.resident, current), 1.0, 0.05);
  EXPECT_NEAR(ratio(compared.resident_peak, peak), 1.0, 0.05);
}

}  // namespace
}  // namespace triax
