// SPDX-License-Identifier: Apache-2.0
// Every way of spoiling a split on purpose is found.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/layout_run.h"
#include "triax/base/error.h"

namespace triax {
namespace {

/// A layout on which everything can be broken.
const Overrides kEverything = {"parallel.dp=2",
                               "parallel.tp=2",
                               "parallel.pp=2",
                               "model.tie_word_embeddings=true",
                               "model.num_key_value_heads=1",
                               "model.vocab_size=11",
                               "model.resid_pdrop=0.1",
                               "data.mask_document_ends=true",
                               "parallel.zero=2",
                               "training.microbatch_size=1"};

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
  };
  return layouts;
}

std::string break_test_name(const testing::TestParamInfo<BreakInfo>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Breaks : public testing::TestWithParam<BreakInfo> {};

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
}

TEST_P(Breaks, IsFoundWhereverItApplies) {
  expect_found(kEverything, GetParam());
  for (const Overrides& overrides : small_layouts()) {
    const RunConfig config = checked_tiny_run(overrides);
    if (!missing_for(GetParam().kind, config)) {
      expect_found(overrides, GetParam());
    }
  }
}

TEST_P(Breaks, IsFoundWhereGradientsRound) {
  for (const char* precision : {"fp32", "bf16_autocast"}) {
    expect_found(
        kEverything + Overrides{std::string("training.precision=") + precision},
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Table,
                         Breaks,
                         testing::ValuesIn(break_table()),
                         break_test_name);

TEST(BreakLayouts, AreEqualUnbroken) {
  std::vector<Overrides> layouts = small_layouts();
  layouts.push_back(kEverything);
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
      num_layouts +=
          !missing_for(info.kind, checked_tiny_run(overrides)).has_value();
    }
    EXPECT_GE(num_layouts, 1) << info.name;
    EXPECT_FALSE(missing_for(info.kind, checked_tiny_run(kEverything)))
        << info.name;
  }
}

TEST(BreakNames, SayWhatIsMissingOrWhatThereIs) {
  const RunConfig alone = checked_tiny_run({});
  EXPECT_EQ(parse_break("drop-microbatch", alone), Break::kDropMicrobatch);
  EXPECT_THROW(parse_break("skip-row-sum", alone), Error);
  EXPECT_THROW(parse_break("no-such-break", alone), Error);
}

}  // namespace
}  // namespace triax
