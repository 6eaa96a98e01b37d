// SPDX-License-Identifier: Apache-2.0
// Megatron-DeepSpeed's arguments, as far as they decide what DeepSpeed does.
#include <fmt/format.h>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/config/problem.h"
#include "triax/foreign/megatron_arguments_view.h"

namespace triax {
namespace {

void check_precision(ForeignFindings& findings, const MegatronArguments& args) {
  if (args.is_on("fp16") && args.is_on("bf16")) {
    findings.error("precision-conflict",
                   "bf16",
                   "--fp16 and --bf16 are both given, and Megatron-DeepSpeed "
                   "asserts that they are not",
                   "leave one of them on");
  }
}

void check_stage(ForeignFindings& findings, const MegatronArguments& args) {
  const Whole stage = whole_at(findings.config, "zero-stage");
  const std::string pipeline = deepspeed_pipeline_text(findings.config);
  if (args.is_on("deepspeed") && stage.value_or(0) >= 2 && !pipeline.empty()) {
    findings.error(
        "pipeline-zero",
        stage.key,
        fmt::format("zero stage {} with {}: DeepSpeed's pipeline engine "
                    "asserts a stage below 2",
                    *stage,
                    pipeline),
        "use stage 1, or --no-pipeline-parallel",
        Effect::kFailsLater);
  }
}

}  // namespace

std::string deepspeed_pipeline_text(const ForeignConfig& config) {
  const MegatronArguments args(config);
  if (args.is_on("no-pipeline-parallel")) {
    return "";
  }
  const Whole pp = whole_at(config, "pipeline-model-parallel-size");
  if (pp && *pp > 1) {
    return fmt::format("{} {}", pp.key, *pp);
  }
  // Its GPT is a PipelineModule even of one stage.
  const bool is_pipe = args.is_deepspeed() && args.is_on("deepspeed") &&
                       args.script() == "pretrain_gpt.py" &&
                       args.is_off("no-pipeline-parallel");
  return is_pipe ? "a GPT of one pipeline stage (no --no-pipeline-parallel)"
                 : "";
}

void check_megatron_deepspeed(ForeignFindings& findings) {
  const MegatronArguments args(findings.config);
  if (args.is_deepspeed()) {
    check_precision(findings, args);
    check_stage(findings, args);
  }
}

}  // namespace triax
