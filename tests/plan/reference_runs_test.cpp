// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/reference_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/models.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

RunConfig tiny_run(Precision precision) {
  RunConfig config;
  config.model = llama_model(10, 2, 8, 16, 2, 1);
  config.data.sequence_length = 4;
  config.parallel.tp = 2;
  config.parallel.dp = 2;
  config.training.microbatch_size = 2;
  config.training.global_batch_size = 8;
  config.training.precision = precision;
  return config;
}

TEST(ReferenceRuns, DifferByRoundingOnly) {
  const RunConfig config = tiny_run(Precision::kBf16Autocast);
  const RunConfig alone = one_rank_config(config, 2);
  EXPECT_EQ(alone.world_size(), 1);
  EXPECT_EQ(alone.num_microbatches(), 4);
  const std::vector<RunConfig> noise = noise_configs(config);
  ASSERT_EQ(noise.size(), 2u);
  EXPECT_EQ(noise[0], one_rank_config(config, 1));
  RunConfig wider = alone;
  wider.training.precision = Precision::kFp32;
  EXPECT_EQ(noise[1], wider);
  EXPECT_TRUE(noise_configs(tiny_run(Precision::kFp64)).empty());
}

TEST(ReferenceRuns, OfMastersAreComparedWithFp32) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const RunConfig config = tiny_run(precision);
    const std::vector<RunConfig> noise = noise_configs(config);
    ASSERT_EQ(noise.size(), 2u);
    EXPECT_EQ(noise[0].training.precision, precision);
    EXPECT_EQ(noise[1].training.precision, Precision::kFp32);
    EXPECT_GT(
        predict_verify_memory(config).reference_bytes,
        predict_verify_memory(tiny_run(Precision::kFp32)).reference_bytes / 2);
  }
}

TEST(ReferenceRuns, OneSequenceHasNoOtherMicrobatch) {
  RunConfig config = tiny_run(Precision::kFp32);
  config.parallel.dp = 1;
  config.training.microbatch_size = config.training.global_batch_size = 1;
  const std::vector<RunConfig> noise = noise_configs(config);
  ASSERT_EQ(noise.size(), 1u);
  EXPECT_EQ(noise[0].training.precision, Precision::kFp64);
}

// The model of memory_model_test.cpp: 1,352 elements, at most 128 in one.
constexpr int64_t kNumel = 80 + 80 + 8 + 2 * (16 + 64 + 32 + 32 + 64 + 3 * 128);
constexpr int64_t kCompared = 3 * 128 * 8;
// In each gradient buffer, where every parameter starts at a multiple of 64.
constexpr int64_t kPadding = 376;

int64_t step_bytes(const RunConfig& config) {
  int64_t nbytes = 0;
  for (const StageMemory& stage : predict_memory(config)) {
    nbytes += (stage.total_bytes() - stage.state_bytes()) * config.parallel.tp *
              config.parallel.dp;
  }
  return nbytes;
}

TEST(ReferenceRuns, InFp64AreOneRunItsGradientsAndAReplay) {
  const RunConfig config = tiny_run(Precision::kFp64);
  const VerifyMemory memory = predict_verify_memory(config);
  EXPECT_EQ(memory.layout_bytes, 4 * predict_memory(config)[0].total_bytes());
  // One rank and the replay hold 4 numbers an element; the initial weights,
  // two gradients, and a mask.
  const int64_t rest =
      step_bytes(one_rank_config(config, 2)) > step_bytes(config)
          ? step_bytes(one_rank_config(config, 2)) - step_bytes(config)
          : 0;
  EXPECT_EQ(
      memory.reference_bytes,
      kNumel * (8 * (2 * 4 + 1 + 2) + 1) + kPadding * 8 * 2 + kCompared + rest);
}

TEST(ReferenceRuns, TheLayoutsWeightsAreWholeWhenTheyAreCompared) {
  RunConfig config = tiny_run(Precision::kFp64);
  config.parallel.zero = 3;
  config.parallel.prefetch = 0;
  for (const int64_t vocab_size : {10, 1000}) {
    config.model.vocab_size = vocab_size;
    const StageMemory stage = predict_memory(config)[0];
    EXPECT_EQ(predict_verify_memory(config).layout_bytes,
              4 * (stage.state_bytes() +
                   std::max(stage.total_bytes() - stage.state_bytes(),
                            2 * stage.lines.front().nbytes)));
  }
}

TEST(ReferenceRuns, WhereGradientsRoundAreThreeRunsAtATime) {
  RunConfig config = tiny_run(Precision::kFp32);
  config.parallel.tp = config.parallel.dp = 1;
  const VerifyMemory memory = predict_verify_memory(config);
  // The runs with this and another microbatch size and the replay have 4 fp32
  // numbers an element, the one in fp64 as many; gradients of all but one.
  const RunConfig wider = noise_configs(config).back();
  EXPECT_EQ(memory.reference_bytes,
            kNumel * (4 * (3 * 4 + 1 + 2) + 8 * (4 + 1)) +
                kPadding * (4 * 3 + 8) + kCompared + step_bytes(wider) -
                step_bytes(config));
}

TEST(ReferenceRuns, TakeNoMoreWithMoreSteps) {
  RunConfig config = tiny_run(Precision::kFp32);
  const int64_t few = predict_verify_memory(config).reference_bytes;
  config.training.steps = 1000;
  EXPECT_EQ(predict_verify_memory(config).reference_bytes, few);
}

}  // namespace
}  // namespace triax
