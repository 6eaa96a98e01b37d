// SPDX-License-Identifier: Apache-2.0
// Numbers that DeepSpeed hands on to a class as they stand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/case_files.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

using testing::HasSubstr;

// A block of the config and what is in it: the parameters of AdamW or WarmupLR,
// or fp16's own.
struct NumberCase {
  std::string block;
  std::string inside;
  std::string key = "";  // of the one finding; "" for none
  std::string rule = "";
  std::string words = "";
};

void PrintTo(const NumberCase& input, std::ostream* out) {
  *out << input.block << " " << input.inside;
}

std::string type_of(const std::string& block) {
  return block == "optimizer" ? "AdamW" : "WarmupLR";
}

std::string config_of(const NumberCase& input) {
  return "{\"train_batch_size\": 8, \"gradient_clipping\": 1.0,\n\"" +
         input.block + "\": {" +
         (input.block == "fp16"
              ? "\"enabled\": true, " + input.inside
              : "\"type\": \"" + type_of(input.block) + "\", \"params\": {" +
                    input.inside + "}") +
         "}}";
}

std::string field_of(const NumberCase& input) {
  return input.block + (input.block == "fp16" ? "." : ".params.") + input.key;
}

class DeepSpeedNumbers : public testing::TestWithParam<NumberCase> {};

TEST_P(DeepSpeedNumbers, AreWhatTheirClassTakes) {
  const NumberCase& input = GetParam();
  ForeignReport report =
      check_foreign(read_deepspeed(config_of(input), "a.json"), {.world = 1});
  std::erase_if(report.problems, [](const Problem& problem) {
    return problem.severity == Severity::kNote;  // of "auto"
  });
  const std::string all = all_text(report);
  if (input.key.empty()) {
    EXPECT_EQ(all, "");
    return;
  }
  ASSERT_EQ(report.problems.size(), 1u) << all;
  EXPECT_EQ(report.problems[0].field, field_of(input));
  EXPECT_EQ(report.problems[0].rule, input.rule);
  EXPECT_EQ(report.problems[0].severity, Severity::kError);
  EXPECT_GT(report.problems[0].position.line, 0);
  EXPECT_THAT(all, HasSubstr(input.words));
}

// clang-format off
const NumberCase kCases[] = {
    {"optimizer", R"("lr": "3e-4")", "lr", "wrong-type", "write it without quotes"},
    {"optimizer", R"("lr": "auto", "betas": "auto")"},
    {"optimizer", R"("lr": -1e-4)", "lr", "out-of-range", "FusedAdam trains with it and diverges"},
    {"optimizer", R"("torch_adam": true, "eps": -1e-8)", "eps", "out-of-range", "torch.optim.AdamW stops at it"},
    {"optimizer", R"("betas": [0.9])", "betas", "wrong-type", "takes two numbers"},
    {"optimizer", R"("betas": [0.9, "0.95"])", "betas", "wrong-type", "takes two numbers"},
    {"optimizer", R"("betas": [0.9, 1.0])", "betas", "out-of-range", "1 is not in 0 to below 1"},
    {"optimizer", R"("lr": 0, "betas": [0, 0.999])"},
    {"scheduler", R"("warmup_num_steps": "100")", "warmup_num_steps", "wrong-type", "WarmupLR stops at it"},
    {"scheduler", R"("warmup_num_steps": 100.5)", "warmup_num_steps", "wrong-type", "without quotes and point"},
    {"scheduler", R"("warmup_max_lr": "1e-3")", "warmup_max_lr", "wrong-type", "without quotes"},
    {"scheduler", R"("warmup_num_steps": "auto")"},
    {"fp16", R"("initial_scale_power": 1024)", "initial_scale_power", "out-of-range", "overflows"},
    {"fp16", R"("initial_scale_power": 20)"},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(OfAll, DeepSpeedNumbers, testing::ValuesIn(kCases));

}  // namespace
}  // namespace triax
