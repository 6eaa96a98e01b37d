// SPDX-License-Identifier: Apache-2.0
#include "triax/check/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/config/load.h"

namespace triax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

RunConfig config_of(const std::vector<std::string>& keys) {
  LoadedConfig loaded = parse_config("", "a.toml", keys);
  EXPECT_THAT(loaded.problems, IsEmpty());
  resolve(loaded);
  return loaded.config;
}

std::vector<std::string> settings(const MemoryAdvice& advice) {
  std::vector<std::string> names;
  for (const MemoryChange& change : advice.fitting) {
    names.push_back(change.setting);
    if (!change.cost.empty()) {
      names.back() += ", " + change.cost;
    }
  }
  return names;
}

/// What fits into `share` of what the config needs.
std::vector<std::string> advised(const RunConfig& config,
                                 double share,
                                 size_t max_changes = 2) {
  const auto limit = static_cast<int64_t>(share * heaviest_rank_bytes(config));
  const MemoryAdvice advice = advise_on_memory(
      config, {.limit_bytes = limit, .max_changes = max_changes});
  for (const MemoryChange& change : advice.fitting) {
    EXPECT_LE(change.nbytes, limit) << change.setting;
    EXPECT_THAT(change.arithmetic, HasSubstr(" instead of "));
  }
  return settings(advice);
}

TEST(MemoryAdvice, TheLargestMicrobatchThatFitsIsCheapest) {
  const RunConfig config = config_of({"training.microbatch_size=12",
                                      "training.global_batch_size=12",
                                      "data.sequence_length=512"});
  EXPECT_THAT(advised(config, 0.75, 3),
              ElementsAre("training.microbatch_size = 6",
                          "memory.recompute = \"full\", a forward pass of the "
                          "layers more",
                          "parallel.tp = 2, 2 ranks instead of 1"));
  EXPECT_THAT(advised(config, 0.45, 1),
              ElementsAre("training.microbatch_size = 4"));
}

TEST(MemoryAdvice, AGivenNumberOfMicrobatchesIsChangedToo) {
  const RunConfig config = config_of({"training.microbatch_size=8",
                                      "training.gradient_accumulation_steps=2",
                                      "data.sequence_length=512"});
  EXPECT_THAT(advised(config, 0.6, 1),
              ElementsAre("training.microbatch_size = 4 with "
                          "training.gradient_accumulation_steps = 4"));
}

TEST(MemoryAdvice, RanksTakenFromDpLeaveTheBatchAsItIs) {
  const RunConfig config = config_of({"parallel.dp=2",
                                      "parallel.zero=2",
                                      "training.microbatch_size=2",
                                      "training.global_batch_size=16",
                                      "training.gradient_accumulation_steps=4",
                                      "model.hidden_size=512"});
  EXPECT_THAT(advised(config, 0.8, 9),
              testing::Contains("parallel.tp = 2 and parallel.dp = 1 with "
                                "training.gradient_accumulation_steps = 8"));
}

TEST(MemoryAdvice, AScheduleThatHoldsLessComesFirst) {
  const RunConfig config = config_of({"parallel.pp=2",
                                      "parallel.schedule=gpipe",
                                      "training.global_batch_size=16",
                                      "data.sequence_length=512"});
  EXPECT_THAT(advised(config, 0.5, 1),
              ElementsAre("parallel.schedule = \"1f1b\""));
}

TEST(MemoryAdvice, ReplicasThatSplitTheirStateComeBeforeOtherAxes) {
  const RunConfig config =
      config_of({"parallel.dp=2", "model.hidden_size=512"});
  EXPECT_THAT(advised(config, 0.8, 3),
              ElementsAre("parallel.zero = 1",
                          testing::StartsWith("memory.offload = \"nvme\", "),
                          "parallel.tp = 2 and parallel.dp = 1"));
}

TEST(MemoryAdvice, TheSequenceIsSplitBeforeALayerRunsTwice) {
  const RunConfig config = config_of({"parallel.tp=2",
                                      "data.sequence_length=512",
                                      "training.microbatch_size=1"});
  EXPECT_THAT(advised(config, 0.93),
              ElementsAre("parallel.sequence_parallel = true",
                          "memory.recompute = \"selective\""));
}

TEST(MemoryAdvice, FewRanksAreCheaperThanLargeMicrobatches) {
  const RunConfig config = config_of({"training.microbatch_size=4",
                                      "training.global_batch_size=16",
                                      "data.sequence_length=256"});
  EXPECT_THAT(advised(config, 0.32, 1),
              ElementsAre("parallel.tp = 2 and training.microbatch_size = 1, "
                          "2 ranks instead of 1"));
}

TEST(MemoryAdvice, WhatCheckRefusesIsNotAdvised) {
  // Five heads: no tp; three layers: pp 3, and not 2 with stages of 2 and 1.
  const RunConfig config =
      config_of({"model.hidden_size=320",
                 "model.num_attention_heads=5",
                 "model.num_hidden_layers=3",
                 "training.gradient_accumulation_steps=4"});
  for (const std::string& setting : advised(config, 0.5, 9)) {
    EXPECT_THAT(setting, testing::Not(HasSubstr("parallel.tp = 2")));
  }
}

TEST(MemoryAdvice, WhatARunNeededMoreIsAdded) {
  const RunConfig config = config_of({"training.microbatch_size=2"});
  const MemoryAdvice plain =
      advise_on_memory(config, {.limit_bytes = int64_t{1} << 40});
  const MemoryAdvice more = advise_on_memory(
      config, {.limit_bytes = int64_t{1} << 40, .unpredicted_bytes = 1000});
  ASSERT_THAT(plain.fitting, SizeIs(2));
  EXPECT_EQ(more.fitting[0].nbytes, plain.fitting[0].nbytes + 1000);
}

TEST(MemoryAdvice, SaysWhatComesNearestWhenNothingFits) {
  const RunConfig config = config_of({"training.microbatch_size=2"});
  const MemoryAdvice advice = advise_on_memory(config, {.limit_bytes = 1000});
  EXPECT_THAT(advice.fitting, IsEmpty());
  ASSERT_THAT(advice.nearest, SizeIs(1));
  EXPECT_THAT(to_text(advice), HasSubstr("no schedule, zero, recompute"));
  EXPECT_THAT(to_text(advice), HasSubstr(advice.nearest[0].setting));
}

TEST(MemoryAdvice, IsOneSentence) {
  const RunConfig config =
      config_of({"training.microbatch_size=8", "data.sequence_length=512"});
  const int64_t needed = heaviest_rank_bytes(config);
  const MemoryAdvice advice =
      advise_on_memory(config, {.limit_bytes = needed * 3 / 4});
  EXPECT_THAT(
      to_text(advice),
      testing::MatchesRegex(
          "it would fit with training.microbatch_size = 4 \\(.* MiB: "
          "activations .* MiB instead of .* MiB, .* instead of .*\\), or with "
          "memory.recompute = .*"));
}

}  // namespace
}  // namespace triax
