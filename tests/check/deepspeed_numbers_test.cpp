// SPDX-License-Identifier: Apache-2.0
// Numbers that DeepSpeed hands on to a class as they stand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/case_files.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

using testing::HasSubstr;

struct NumberCase {
  const char* text;
  const char* field;  // "" for no finding
  const char* rule;
  const char* words;
};

void PrintTo(const NumberCase& input, std::ostream* out) {
  *out << input.text;
}

class DeepSpeedNumbers : public testing::TestWithParam<NumberCase> {};

TEST_P(DeepSpeedNumbers, AreWhatTheirClassTakes) {
  const NumberCase& input = GetParam();
  const std::string text =
      std::string("{\"train_batch_size\": 8, \"gradient_clipping\": 1.0,\n") +
      input.text + "}";
  ForeignReport report =
      check_foreign(read_deepspeed(text, "a.json"), {.world = 1});
  std::erase_if(report.problems, [](const Problem& problem) {
    return problem.severity == Severity::kNote;  // of "auto"
  });
  const std::string all = all_text(report);
  if (*input.field == '\0') {
    EXPECT_EQ(all, "");
    return;
  }
  ASSERT_EQ(report.problems.size(), 1u) << all;
  EXPECT_EQ(report.problems[0].field, input.field);
  EXPECT_EQ(report.problems[0].rule, input.rule);
  EXPECT_EQ(report.problems[0].severity, Severity::kError);
  EXPECT_GT(report.problems[0].position.line, 0);
  EXPECT_THAT(all, HasSubstr(input.words));
}

#define OPTIMIZER(type, params) \
  "\"optimizer\": {\"type\": \"" type "\", \"params\": {" params "}}"
#define SCHEDULER(type, params) \
  "\"scheduler\": {\"type\": \"" type "\", \"params\": {" params "}}"

INSTANTIATE_TEST_SUITE_P(
    Optimizer,
    DeepSpeedNumbers,
    testing::Values(
        NumberCase{OPTIMIZER("AdamW", "\"lr\": \"3e-4\""),
                   "optimizer.params.lr",
                   "wrong-type",
                   "write it without quotes"},
        NumberCase{OPTIMIZER("AdamW", "\"lr\": \"auto\", \"betas\": \"auto\""),
                   "",
                   "",
                   ""},
        NumberCase{OPTIMIZER("AdamW", "\"lr\": -1e-4"),
                   "optimizer.params.lr",
                   "out-of-range",
                   "FusedAdam trains with it and diverges"},
        NumberCase{OPTIMIZER("AdamW", "\"torch_adam\": true, \"eps\": -1e-8"),
                   "optimizer.params.eps",
                   "out-of-range",
                   "torch.optim.AdamW stops at it"},
        NumberCase{OPTIMIZER("AdamW", "\"betas\": [0.9]"),
                   "optimizer.params.betas",
                   "wrong-type",
                   "takes two numbers"},
        NumberCase{OPTIMIZER("AdamW", "\"betas\": [0.9, \"0.95\"]"),
                   "optimizer.params.betas",
                   "wrong-type",
                   "takes two numbers"},
        NumberCase{OPTIMIZER("AdamW", "\"betas\": [0.9, 1.0]"),
                   "optimizer.params.betas",
                   "out-of-range",
                   "1 is not in 0 to below 1"},
        NumberCase{OPTIMIZER("AdamW", "\"lr\": 0, \"betas\": [0, 0.999]"),
                   "",
                   "",
                   ""}));

INSTANTIATE_TEST_SUITE_P(
    Schedule,
    DeepSpeedNumbers,
    testing::Values(
        NumberCase{SCHEDULER("WarmupLR", "\"warmup_num_steps\": \"100\""),
                   "scheduler.params.warmup_num_steps",
                   "wrong-type",
                   "WarmupLR stops at it"},
        NumberCase{SCHEDULER("WarmupLR", "\"warmup_num_steps\": 100.5"),
                   "scheduler.params.warmup_num_steps",
                   "wrong-type",
                   "without quotes and point"},
        NumberCase{SCHEDULER("WarmupLR", "\"warmup_max_lr\": \"1e-3\""),
                   "scheduler.params.warmup_max_lr",
                   "wrong-type",
                   "without quotes"},
        NumberCase{SCHEDULER("WarmupLR", "\"warmup_num_steps\": \"auto\""),
                   "",
                   "",
                   ""}));

INSTANTIATE_TEST_SUITE_P(
    LossScale,
    DeepSpeedNumbers,
    testing::Values(
        NumberCase{
            "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 1024}",
            "fp16.initial_scale_power",
            "out-of-range",
            "overflows"},
        NumberCase{"\"fp16\": {\"enabled\": true, \"initial_scale_power\": 20}",
                   "",
                   "",
                   ""}));

}  // namespace
}  // namespace triax
