// SPDX-License-Identifier: Apache-2.0
// Every way of spoiling a split on purpose is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_corpus.h"
#include "triax/base/error.h"

namespace triax {
namespace {

/// A layout on which everything can be broken.
const Overrides kEverything = {"parallel.dp=2",
                               "parallel.tp=2",
                               "parallel.pp=2",
                               "model.tie_word_embeddings=true",
                               "model.num_key_value_heads=1",
                               "model.vocab_size=13",
                               "training.gradient_clipping=0.05",
                               "optimizer.freeze=[\"*o_proj*\"]",
                               "optimizer.group=[{pattern=\"*mlp*\", "
                               "lr=5e-3, weight_decay=0.5}]",
                               "model.resid_pdrop=0.1",
                               "data.mask_document_ends=true",
                               "parallel.zero=2",
                               "training.microbatch_size=1"};

/// What the kinds need that break sequence parallelism.
const Overrides kSplitSequence = {"parallel.sequence_parallel=true",
                                  "data.sequence_length=8"};

/// kEverything, with the sequence or the parameters split where the kind needs
/// that.
Overrides everything_for(Break kind) {
  for (const Overrides& more :
       {Overrides{}, kSplitSequence, Overrides{"parallel.zero=3"}}) {
    if (!missing_for(kind, checked_tiny_run(kEverything + more))) {
      return kEverything + more;
    }
  }
  throw Error("a break that applies nowhere");
}

/// Layouts on which only some of it can, without clipping to hide behind.
const std::vector<Overrides>& small_layouts() {
  static const std::vector<Overrides> layouts = {
      {"parallel.tp=2", "model.vocab_size=13", "training.gradient_clipping=0"},
      {"parallel.tp=4",
       "model.vocab_size=11",
       "model.num_key_value_heads=2",
       "training.gradient_clipping=0"},
      {"parallel.pp=2", "model.family=gpt2", "training.gradient_clipping=0"},
      {"parallel.dp=2",
       "model.embd_pdrop=0.1",
       "parallel.bucket_bytes=1",
       "training.gradient_clipping=0"},
      {"parallel.tp=2",
       "parallel.pp=2",
       "model.family=gpt2",
       "model.vocab_size=11",
       "parallel.order=pp-tp-dp"},
      {"parallel.dp=3",
       "parallel.pp=2",
       "model.attn_pdrop=0.1",
       "parallel.zero=1"},
      {"parallel.pp=2", "parallel.stages=[1,3]"},
      {"parallel.dp=2",
       "parallel.tp=2",
       "parallel.zero=3",
       "optimizer.freeze=[\"*norm.weight\"]",
       "training.gradient_clipping=0"},
      kSplitSequence + Overrides{"parallel.tp=2", "model.family=gpt2"},
      kSplitSequence + Overrides{"parallel.tp=4",
                                 "model.resid_pdrop=0.1",
                                 "memory.recompute=selective"},
      {"parallel.tp=2",
       "parallel.pp=2",
       "training.gradient_clipping=0.05",
       "optimizer.freeze=[\"*norm.weight\"]",
       "optimizer.group=[{pattern=\"*norm*\", weight_decay=0.5}, "
       "{pattern=\"*mlp*\", weight_decay=0.5}]"},
  };
  return layouts;
}

std::string break_test_name(const testing::TestParamInfo<BreakInfo>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Breaks : public testing::TestWithParam<BreakInfo> {};

/// Loss, norm and gradients are right: only weights show it.
bool is_of_the_update(Break kind) {
  return kind == Break::kIgnoreGroups || kind == Break::kSkipClipping ||
         kind == Break::kMoveFrozen || kind == Break::kMoveUnusedRow;
}

void expect_found(const Overrides& overrides, const BreakInfo& info) {
  const VerifyOptions options{.num_steps = 2, .broken = info.kind};
  const VerifyReport report =
      verify_layout(checked_tiny_run(overrides), options);
  const std::string told =
      to_text(report) + "\nrepeat: " + verify_command(overrides, options);
  EXPECT_FALSE(report.is_equal()) << told;
  const bool is_named = report.first && !report.first->name.empty();
  EXPECT_TRUE(is_named || !report.loss.is_within() || !report.norm.is_within())
      << told;
  if (is_of_the_update(info.kind)) {
    EXPECT_TRUE(is_named) << told;
  }
}

/// Whether this break can do something here, as far as one can say without
/// the data: of the ids below 16, batches use 11.
bool applies(const BreakInfo& info, const RunConfig& config) {
  if (info.kind == Break::kSkipClipping) {
    return config.training.gradient_clipping == 0.05;
  }
  if (info.kind == Break::kMoveUnusedRow) {
    return config.model.vocab_size > kTinyCorpusIds;
  }
  return !missing_for(info.kind, config);
}

TEST_P(Breaks, IsFoundWhereverItApplies) {
  expect_found(everything_for(GetParam().kind), GetParam());
  for (const Overrides& overrides : small_layouts()) {
    const RunConfig config = checked_tiny_run(overrides);
    if (applies(GetParam(), config)) {
      expect_found(overrides, GetParam());
    }
  }
}

TEST_P(Breaks, IsFoundWhereGradientsRound) {
  for (const char* precision : {"fp32", "bf16_autocast", "bf16"}) {
    expect_found(everything_for(GetParam().kind) +
                     Overrides{std::string("training.precision=") + precision},
                 GetParam());
  }
}

// A CPU takes its time over fp16: some of each sort.
TEST(BreaksInFp16, AreFound) {
  const std::set<Break> kinds = {Break::kSkipRowSum,
                                 Break::kDropMicrobatch,
                                 Break::kSkipReplicaReduction,
                                 Break::kMoveUnusedRow,
                                 Break::kStaleParameterShard,
                                 Break::kMoveFrozen};
  for (const BreakInfo& info : break_table()) {
    if (kinds.contains(info.kind)) {
      expect_found(everything_for(info.kind) +
                       Overrides{"training.precision=fp16",
                                 "training.initial_loss_scale=256"},
                   info);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table,
                         Breaks,
                         testing::ValuesIn(break_table()),
                         break_test_name);

VerifyReport verify_broken(const Overrides& overrides, Break broken) {
  return verify_layout(checked_tiny_run(overrides),
                       {.num_steps = 2, .broken = broken});
}

// Ids 11 and 12 are in no batch: their rows have no gradient in any step.
TEST(BreakOfAnUnusedRow, ShowsInTheWeightsAlone) {
  for (const char* precision : {"fp64", "fp32", "bf16_autocast"}) {
    const Overrides run = {"parallel.tp=2",
                           "parallel.dp=2",
                           "model.vocab_size=13",
                           std::string("training.precision=") + precision};
    EXPECT_TRUE(verify_layout(checked_tiny_run(run)).is_equal()) << precision;
    const VerifyReport report = verify_broken(run, Break::kMoveUnusedRow);
    EXPECT_TRUE(report.loss.is_within() && report.norm.is_within() &&
                report.gradients.is_within())
        << to_text(report);
    EXPECT_FALSE(report.weights.is_within()) << to_text(report);
    ASSERT_TRUE(report.first) << to_text(report);
    EXPECT_EQ(report.first->name, "update of model.embed_tokens.weight");
    EXPECT_EQ(report.first->index.at(0), 11) << to_text(report);
    EXPECT_TRUE(report.drifted.empty());
  }
}

TEST(BreakOfASum, ListsEachDriftedParameterOnceWithItsFirstStep) {
  const VerifyReport report =
      verify_layout(checked_tiny_run({"parallel.tp=2"}),
                    {.num_steps = 3, .broken = Break::kSkipRowSum});
  std::set<std::string> names;
  for (const std::string& text : report.drifted) {
    EXPECT_TRUE(names.insert(text.substr(0, text.find(' '))).second) << text;
  }
  EXPECT_GE(names.size(), 2u);
  EXPECT_THAT(report.drifted,
              testing::Contains(testing::AllOf(
                  testing::StartsWith("model.layers.1.input_layernorm.weight "
                                      "differs between ranks 0 and 1 by "),
                  testing::EndsWith(", first in the gradient of step 1"))));
}

TEST(BreakOfAnUpdate, LeavesTheFirstGradientRight) {
  const Overrides all = {"parallel.pp=2",
                         "parallel.tp=2",
                         "training.gradient_clipping=0.05",
                         "optimizer.freeze=[\"*norm.weight\"]",
                         "optimizer.group=[{pattern=\"*mlp*\", lr=5e-3}]"};
  for (const Break broken : {Break::kIgnoreGroups, Break::kMoveFrozen}) {
    const VerifyReport report = verify_layout(
        checked_tiny_run(all), {.num_steps = 1, .broken = broken});
    EXPECT_TRUE(report.gradients.is_within()) << to_text(report);
    ASSERT_TRUE(report.first) << to_text(report);
    EXPECT_EQ(report.first->name.rfind("update of ", 0), 0u)
        << report.first->name;
  }
}

TEST(BreakOfAnUpdate, IsRefusedWhereTheDataLeaveNothingToBreak) {
  EXPECT_THROW(verify_broken({"parallel.tp=2",
                              "model.vocab_size=11",
                              "training.global_batch_size=96"},
                             Break::kMoveUnusedRow),
               Error);
  EXPECT_THROW(
      verify_broken({"parallel.tp=2", "training.gradient_clipping=1e9"},
                    Break::kSkipClipping),
      Error);
}

// Parameters that lie in shards, and masters that are made of these.
TEST(BreakOfWeights, ReachesMastersAndShards) {
  const Overrides run = plan_overrides("dp2_zero3");
  const Overrides on_file = {"memory.offload=nvme",
                             "memory.offload_dir=/dev/shm",
                             "memory.offload_states=[\"optimizer\", "
                             "\"gradients\", \"parameters\"]"};
  for (const Break broken : {Break::kSwapHeads, Break::kSwapLayers}) {
    for (const char* precision : {"fp64", "fp32", "bf16"}) {
      for (const Overrides& more : {Overrides{}, on_file}) {
        const RunConfig config = checked_tiny_run(
            run + more +
            Overrides{std::string("training.precision=") + precision});
        const VerifyReport report =
            verify_layout(config, {.num_steps = 1, .broken = broken});
        ASSERT_TRUE(report.first) << to_text(report);
        // Before any step.
        EXPECT_THAT(report.first->name, testing::StartsWith("initial weight"))
            << to_text(report);
      }
    }
  }
}

TEST(BreakLayouts, AreEqualUnbroken) {
  std::vector<Overrides> layouts = small_layouts();
  layouts.push_back(kEverything);
  layouts.push_back(kEverything + kSplitSequence);
  for (const Overrides& overrides : layouts) {
    const VerifyReport report = verify_layout(checked_tiny_run(overrides));
    EXPECT_TRUE(report.is_equal())
        << to_text(report) << verify_command(overrides, kTwoSteps);
  }
}

TEST(BreakLayouts, LetEveryBreakWorkAtLeastTwice) {
  for (const BreakInfo& info : break_table()) {
    int num_layouts = 0;
    for (const Overrides& overrides : small_layouts()) {
      num_layouts += applies(info, checked_tiny_run(overrides));
    }
    EXPECT_GE(num_layouts, 1) << info.name;
    EXPECT_TRUE(applies(info, checked_tiny_run(everything_for(info.kind))))
        << info.name;
  }
}

TEST(BreakNames, SayWhatIsMissingOrWhatThereIs) {
  const RunConfig alone = checked_tiny_run({});
  EXPECT_EQ(parse_break("drop-microbatch", alone), Break::kDropMicrobatch);
  EXPECT_THROW(parse_break("skip-row-sum", alone), Error);
  EXPECT_THROW(parse_break("no-such-break", alone), Error);
  EXPECT_THROW(parse_break("ignore-groups", alone), Error);
  const RunConfig same = checked_tiny_run(
      {"optimizer.group=[{pattern=\"*norm*\", weight_decay=0.0}]"});
  EXPECT_THROW(parse_break("ignore-groups", same), Error);
}

}  // namespace
}  // namespace triax
