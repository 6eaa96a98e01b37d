// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/case_files.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

using testing::HasSubstr;

ForeignReport report_of(const std::string& text) {
  return check_foreign(read_deepspeed(text, "a.json"), {.world = 1});
}

// The Trainer fills "auto" and nothing else; Lightning fills what is missing.
TEST(DeepSpeedBatch, SaysWhoFillsIt) {
  const ForeignReport lightning =
      report_of("{\"gradient_clipping\": 1.0, \"bf16\": {\"enabled\": true}}");
  ASSERT_EQ(lightning.problems.size(), 1u);
  EXPECT_EQ(lightning.problems[0].rule, "batch-triangle");
  EXPECT_EQ(lightning.problems[0].severity, Severity::kWarning);
  EXPECT_EQ(lightning.problems[0].effect, Effect::kRefused);
  EXPECT_THAT(lightning.problems[0].message, HasSubstr("Lightning"));
  const ForeignReport trainer = report_of(
      "{\"gradient_clipping\": 1.0, \"bf16\": {\"enabled\": \"auto\"}}");
  ASSERT_EQ(trainer.problems.size(), 1u);
  EXPECT_EQ(trainer.problems[0].severity, Severity::kError);
  EXPECT_THAT(trainer.problems[0].message,
              testing::Not(HasSubstr("Lightning")));
}

// A DeepSpeed config with one mistake beside what every case has.
struct Case {
  const char* text;  // after {"train_batch_size": 8, "gradient_clipping": 1.0
  const char* rule;  // "" for none
  const char* severity;
  const char* effect;
  const char* field;
  std::vector<std::string> words;
};

void PrintTo(const Case& input, std::ostream* out) {
  *out << input.text;
}

class DeepSpeedRules : public testing::TestWithParam<Case> {};

TEST_P(DeepSpeedRules, SayWhatHappensAndTheWayOut) {
  const Case& input = GetParam();
  const std::string text = std::string(
                               "{\"train_batch_size\": 8,\n"
                               "\"gradient_clipping\": 1.0\n") +
                           input.text + "}";
  const ForeignReport report =
      check_foreign(read_deepspeed(text, "a.json"), {.world = 1});
  std::string all;
  for (const Problem& problem : report.problems) {
    all += to_text(problem) + "\n";
  }
  if (*input.rule == '\0') {
    EXPECT_EQ(all, "");
    return;
  }
  ASSERT_EQ(report.problems.size(), 1u) << all;
  const Problem& problem = report.problems[0];
  EXPECT_EQ(problem.rule, input.rule) << all;
  EXPECT_EQ(severity_name(problem.severity), input.severity) << all;
  EXPECT_EQ(effect_name(problem.effect), input.effect) << all;
  EXPECT_EQ(problem.field, input.field);
  EXPECT_GT(problem.position.line, 0);
  for (const std::string& words : input.words) {
    EXPECT_THAT(all, HasSubstr(words));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Keys,
    DeepSpeedRules,
    testing::Values(
        Case{"gradient_clipp1ng: 2.0\n",
             "unknown-key",
             "error",
             "ignored",
             "gradient_clipp1ng",
             {"does nothing", "did you mean gradient_clipping?"}},
        Case{"zero_optimisation: {stage: 2}\n",
             "unknown-key",
             "error",
             "ignored",
             "zero_optimisation",
             {"a.json:3:1: ", "did you mean zero_optimization?"}},
        Case{"my_own_seed: 3\n",
             "unknown-key",
             "warning",
             "ignored",
             "my_own_seed",
             {"does nothing"}},
        Case{"flops_profiler: {end_profile_step: 3}\n",
             "unknown-key",
             "warning",
             "ignored",
             "flops_profiler.end_profile_step",
             {"did you mean profile_step?"}},
        Case{"autotuning: {enabled: false, mode: 'fast'}\n",
             "unknown-key",
             "warning",
             "ignored",
             "autotuning.mode",
             {"remove it"}},
        Case{"micro_batch_size_per_gpu: 4\n",
             "unknown-key",
             "error",
             "ignored",
             "micro_batch_size_per_gpu",
             {"did you mean train_micro_batch_size_per_gpu?"}},
        Case{"_comment: {for: 1}\n", "", "", "", "", {}},
        Case{"zero_optimization: {stage: 2, reduce_bucketsize: 5}\n",
             "unknown-key",
             "error",
             "refused",
             "zero_optimization.reduce_bucketsize",
             {"did you mean reduce_bucket_size?"}},
        Case{"zero_optimization: {aio: {}}\n",
             "misplaced-key",
             "error",
             "refused",
             "zero_optimization.aio",
             {"belongs at the top level"}},
        Case{"overlap_comm: true\n",
             "misplaced-key",
             "error",
             "ignored",
             "overlap_comm",
             {"belongs in zero_optimization"}},
        Case{"elasticity: {enabled: false}\n",
             "removed-key",
             "error",
             "refused",
             "elasticity",
             {"elastic training was removed", "0.19.8"}},
        Case{"zero_optimization: {stage: 1, cpu_offload: true}\n",
             "deprecated-key",
             "note",
             "",
             "zero_optimization.cpu_offload",
             {"use zero_optimization.offload_optimizer"}},
        Case{"aio: {thread_count: 4}\n"
             "zero_optimization: {stage: 3, offload_param: {device: 'nvme',"
             "nvme_path: 'd'}}\n",
             "ignored-key",
             "warning",
             "ignored",
             "aio.thread_count",
             {"aio.intra_op_parallelism"}},
        Case{"zero_optimization: {reduce_bucket_size: 1.5}\n",
             "wrong-type",
             "error",
             "refused",
             "zero_optimization.reduce_bucket_size",
             {"1.5 is a number with a fraction", "a whole number"}},
        Case{"zero_optimization: {stage: 4}\n",
             "out-of-range",
             "error",
             "refused",
             "zero_optimization.stage",
             {"4 must be 0 to 3"}},
        Case{"gradient_allreduce_op: max\n",
             "unknown-value",
             "error",
             "refused",
             "gradient_allreduce_op",
             {"\"max\" is none of mean, sum"}},
        Case{"dump_state: 7\n",
             "wrong-type",
             "warning",
             "fails later",
             "dump_state",
             {"true or false"}},
        Case{"steps_per_print: auto\n",
             "auto-value",
             "warning",
             "fails later",
             "steps_per_print",
             {"neither DeepSpeed nor transformers' Trainer"}},
        Case{"gradient_accumulation_steps: auto\n",
             "auto-value",
             "note",
             "",
             "gradient_accumulation_steps",
             {"TypeError", "Trainer"}},
        Case{"activation_checkpointing: {number_checkpoints: false, profile: 0}"
             "\n",
             "",
             "",
             "",
             "",
             {}},
        Case{"bf16: {enabled: 'auto'}\n", "", "", "", "", {}}));

INSTANTIATE_TEST_SUITE_P(
    Values,
    DeepSpeedRules,
    testing::Values(
        Case{"bf16: {enabled: true}\nfp16: {enabled: true}\n",
             "precision-conflict",
             "error",
             "refused",
             "bf16.enabled",
             {"both enabled"}},
        Case{"bf16: {enabled: true}\nfp16: {enabled: false, hysteresis: 2}\n",
             "no-effect",
             "note",
             "ignored",
             "fp16.hysteresis",
             {"without a loss scale"}},
        Case{"zero_optimization: {stage: 2, offload_param: {device: 'nvme'}}\n",
             "offload-no-effect",
             "error",
             "ignored",
             "zero_optimization.offload_param.device",
             {"parameter offload needs stage 3, and the stage is 2"}},
        Case{"zero_optimization: {stage: 3, offload_param: {device: 'nvme'}}\n",
             "refused-combination",
             "error",
             "fails later",
             "zero_optimization.offload_param.device",
             {"needs nvme_path"}},
        Case{"zero_optimization: {stage: 2, offload_optimizer: {device: 'nvme',"
             "nvme_path: 'd'}}\n",
             "offload-no-effect",
             "warning",
             "silently different",
             "zero_optimization.offload_optimizer.device",
             {"host's memory"}},
        Case{"zero_optimization: {stage: 2, stage3_max_live_parameters: 1}\n",
             "no-effect",
             "note",
             "ignored",
             "zero_optimization.stage3_max_live_parameters",
             {"only stage 3 reads"}},
        Case{"zero_optimization: {stage: 2}\nprescale_gradients: true\n",
             "refused-combination",
             "error",
             "fails later",
             "prescale_gradients",
             {"asserts that it is off"}},
        Case{"pipeline: {stages: 4}\nzero_optimization: {stage: 2}\n",
             "pipeline-zero",
             "error",
             "fails later",
             "zero_optimization.stage",
             {"stage below 2"}},
        Case{"pipeline: {}\nzero_optimization: {stage: 1}\n",
             "",
             "",
             "",
             "",
             {}}));

INSTANTIATE_TEST_SUITE_P(
    Training,
    DeepSpeedRules,
    testing::Values(
        Case{"optimizer: {type: 'adamww'}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.type",
             {"did you mean adamw?"}},
        Case{"optimizer: {type: 'SGD'}\nzero_optimization: {stage: 1}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.type",
             {"zero_allow_untested_optimizer"}},
        Case{"optimizer: {type: 'Adam', params: {max_grad_norm: 1.0}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.params.max_grad_norm",
             {"use gradient_clipping"}},
        Case{"optimizer: {params: {lr: 1.0}}\n",
             "optimizer-choice",
             "warning",
             "ignored",
             "optimizer.params",
             {"optimizer.type"}},
        Case{"optimizer: {type: 'AdamW', params: {weight_dacay: 0.1}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.params.weight_dacay",
             {"FusedAdam has no such parameter", "did you mean weight_decay?"}},
        Case{"optimizer: {type: 'Adam', params: {foreach: true}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.params.foreach",
             {"it takes lr, bias_correction"}},
        Case{"optimizer: {type: 'Adam', params: {foreach: true, torch_adam: "
             "true, adam_w_mode: false}}\n",
             "",
             "",
             "",
             "",
             {}},
        Case{"optimizer: {type: 'Adam', params: {amsgrad: true}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.params.amsgrad",
             {"FusedAdam has no AMSGrad"}},
        Case{"optimizer: {type: 'Lion', params: {set_grad_none: true}}\n"
             "zero_optimization: {stage: 2, offload_optimizer: {device: "
             "'cpu'}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.params.set_grad_none",
             {"DeepSpeedCPULion has no such parameter"}},
        Case{"optimizer: {type: 'Muon', params: {nesterov: true}}\n",
             "optimizer-choice",
             "warning",
             "ignored",
             "optimizer.params.nesterov",
             {"MuonWithAuxAdam passes over it"}},
        Case{"optimizer: {type: 'Muon', params: {momentun: 0.9}}\n",
             "optimizer-choice",
             "error",
             "ignored",
             "optimizer.params.momentun",
             {"did you mean momentum?"}},
        Case{"optimizer: {type: 'OneBitAdam', params: {freeze_step: 10}}\n",
             "optimizer-choice",
             "error",
             "fails later",
             "optimizer.type",
             {"0.19.8 dropped \"OneBitAdam\""}},
        Case{"scheduler: {type: 'StepLR', params: {step_size: 5, gama: 1}}\n",
             "scheduler-choice",
             "error",
             "fails later",
             "scheduler.params.gama",
             {"torch's StepLR has no such parameter", "did you mean gamma?"}},
        Case{"scheduler: {type: 'StepLR', params: {gamma: 0.5}}\n",
             "scheduler-choice",
             "error",
             "fails later",
             "scheduler.params",
             {"StepLR needs step_size"}},
        Case{"scheduler: {type: 'WarmupLr', params: {}}\n",
             "scheduler-choice",
             "error",
             "fails later",
             "scheduler.type",
             {"did you mean WarmupLR?"}},
        Case{"scheduler: {type: 'WarmupDecayLR', params: {}}\n",
             "scheduler-choice",
             "error",
             "fails later",
             "scheduler.params",
             {"needs total_num_steps"}},
        Case{"scheduler: {type: 'WarmupLR', params: {warmup_steps: 5}}\n",
             "scheduler-choice",
             "error",
             "fails later",
             "scheduler.params.warmup_steps",
             {"no such parameter"}},
        Case{"scheduler: {type: 'WarmupLR', params: {warmup_max_lr: 1e-3}}\n"
             "optimizer: {type: 'Adam', params: {lr: 3e-5}}\n",
             "lr-order",
             "warning",
             "silently different",
             "scheduler.params.warmup_max_lr",
             {"3e-05 is overwritten"}},
        Case{"scheduler: {type: 'WarmupDecayLR', params: {total_num_steps: 10\n"
             "warmup_num_steps: 20}}\n",
             "warmup-steps",
             "warning",
             "silently different",
             "scheduler.params.warmup_num_steps",
             {"20 steps of warm-up do not fit into 10"}},
        Case{"scheduler: {type: 'CosineAnnealingLR', params: {T_max: 5}}\n",
             "",
             "",
             "",
             "",
             {}}));

TEST(DeepSpeedRules, SayWhichDefaultChanged) {
  const ForeignReport report =
      check_foreign(read_deepspeed("{train_batch_size: 8}", "a.json"));
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].rule, "default-changed");
  EXPECT_EQ(report.problems[0].severity, Severity::kNote);
}

std::string batch(const std::string& text, std::optional<int64_t> world) {
  ForeignContext context;
  context.world = world;
  const ForeignReport report = check_foreign(
      read_deepspeed(text + "\ngradient_clipping: 1", "a.json"), context);
  return text_with_unjudged(report);
}

// Cases 6 of the public reports.
TEST(ForeignBatch, DoesTheArithmeticAndNamesTheDegree) {
  const std::string triple =
      "train_batch_size: 256\ntrain_micro_batch_size_per_gpu: 2\n"
      "gradient_accumulation_steps: 18";
  EXPECT_THAT(batch(triple, 7),
              HasSubstr("2 * gradient_accumulation_steps 18 * dp 7 (7 ranks) "
                        "= 252, not train_batch_size 256"));
  EXPECT_THAT(batch(triple, {}), HasSubstr("256 is not a multiple of"));
  const std::string two =
      "train_batch_size: 100\ntrain_micro_batch_size_per_gpu: 8";
  EXPECT_THAT(batch(two, 4),
              HasSubstr("100 is not a multiple of "
                        "train_micro_batch_size_per_gpu 8 * dp 4 (4 ranks) = "
                        "32"));
  EXPECT_THAT(batch(two, 4), HasSubstr("use 96 or 128"));
  EXPECT_THAT(batch("train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 2\n"
                    "gradient_accumulation_steps: 4",
                    {}),
              testing::StartsWith("not judged: the batch sizes ask for dp = "
                                  "64 / (2 * 4) = 8"));
  EXPECT_THAT(
      batch("train_batch_size: 64\ntensor_parallel: {autotp_size: 2}", 8),
      testing::Not(HasSubstr("batch")));
}

std::string checked_as(const std::string& version, const std::string& text) {
  ForeignContext context;
  context.version = version;
  context.world = 1;
  std::string all;
  for (const Problem& problem :
       check_foreign(read_deepspeed(text, "a.json"), context).problems) {
    all += to_text(problem) + "\n";
  }
  return all;
}

TEST(DeepSpeedVersions, HaveTheirOwnKeys) {
  const std::string old = "{train_batch_size: 8, elasticity: {enabled: false}}";
  EXPECT_THAT(checked_as("", old), HasSubstr("error[removed-key]"));
  EXPECT_EQ(checked_as("0.18.3", old), "");
  const std::string young =
      "{train_batch_size: 8, zero_optimization: {stage: 2, zenflow: {}}}";
  EXPECT_THAT(checked_as("0.14.5", young),
              HasSubstr("error[unknown-key]: zero_optimization.zenflow: 0.14.5 "
                        "does not have it yet"));
  EXPECT_EQ(checked_as("0.17.0", young), "");
  EXPECT_THAT(checked_as("0.12.6", "{train_batch_size: 8, aio: {use_gds: 0}}"),
              HasSubstr("warning[unknown-key]: aio.use_gds"));
  const std::string optimizer =
      "{train_batch_size: 8, optimizer: {type: 'OneBitAdam'}}";
  EXPECT_THAT(checked_as("", optimizer), HasSubstr("optimizer-choice"));
  EXPECT_EQ(checked_as("0.16.9", optimizer), "");
}

TEST(ForeignCheck, SurvivesHugeNumbers) {
  EXPECT_NE(batch("train_batch_size: 9223372036854775807\n"
                  "train_micro_batch_size_per_gpu: 9223372036854775807\n"
                  "gradient_accumulation_steps: 9223372036854775807",
                  65536),
            "x");
  EXPECT_NE(batch("train_batch_size: -9223372036854775808", 2), "");
}

TEST(ForeignCheck, StopsAtSyntax) {
  const ForeignReport report =
      check_foreign(read_deepspeed("{a: 1, a: 2}", "a.json"));
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].rule, "syntax");
  EXPECT_EQ(report.problems[0].position, (Position{"a.json", 1, 8}));
}

}  // namespace
}  // namespace triax
