// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "triax/base/saturating.h"
#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_deepspeed_values.h"
#include "triax/check/foreign_findings.h"
#include "triax/config/problem.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/hjson.h"

namespace triax {
namespace {

const std::string kZero = "zero_optimization";

bool is_auto(const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  return text != nullptr && *text == "auto";
}

bool has_auto(const ConfigTable& table) {
  return std::any_of(table.begin(), table.end(), [](const ConfigEntry& entry) {
    const auto* below = std::get_if<ConfigTable>(&entry.value.data);
    return is_auto(entry.value) || (below != nullptr && has_auto(*below));
  });
}

// "auto" that nobody but the Trainer understands. Of the sections that
// pydantic reads DeepSpeed drops it, and takes the default.
void find_auto(const ConfigTable& table,
               const std::string& prefix,
               std::vector<std::string>& found) {
  static constexpr std::string_view kOwn[] = {"pipeline",
                                              "expert_parallel",
                                              "data_types",
                                              "zero_optimization",
                                              "fp16",
                                              "bf16",
                                              "bfloat16",
                                              "tensor_parallel",
                                              "compile",
                                              "autotuning"};
  for (const ConfigEntry& entry : table) {
    const bool is_own =
        prefix.empty() &&
        std::find(std::begin(kOwn), std::end(kOwn), entry.key) !=
            std::end(kOwn);
    const std::string path =
        prefix.empty() ? entry.key : prefix + "." + entry.key;
    if (is_auto(entry.value)) {
      found.push_back(path);
    } else if (const auto* below =
                   std::get_if<ConfigTable>(&entry.value.data)) {
      if (!is_own) {
        find_auto(*below, path, found);
      }
    }
  }
}

bool is_filled(const std::string& path) {
  const auto& filled = trainer_filled_paths();
  return std::find(filled.begin(), filled.end(), path) != filled.end();
}

bool is_batch_key(const std::string& path) {
  return path == "train_batch_size" ||
         path == "train_micro_batch_size_per_gpu" ||
         path == "gradient_accumulation_steps";
}

void check_auto(ForeignFindings& findings) {
  std::vector<std::string> found;
  find_auto(findings.config.table, "", found);
  std::vector<std::string> filled;
  for (const std::string& path : found) {
    if (is_filled(path)) {
      filled.push_back(path);
    } else if (deepspeed_keys().find(path) != nullptr) {
      findings.warning("auto-value",
                       path,
                       "neither DeepSpeed nor transformers' Trainer replaces "
                       "\"auto\" here",
                       "write the value",
                       Effect::kFailsLater);
    }
  }
  if (filled.empty()) {
    return;
  }
  const auto batch = std::find_if(filled.begin(), filled.end(), is_batch_key);
  findings.note(
      "auto-value",
      batch == filled.end() ? filled.front() : *batch,
      fmt::format("transformers' Trainer or accelerate must fill the \"auto\" "
                  "of {}; {}",
                  fmt::join(filled, ", "),
                  batch == filled.end()
                      ? "deepspeed.initialize() alone fails over them later"
                      : "deepspeed.initialize() alone stops with a TypeError"),
      "start it by the Trainer, or write the values");
}

void check_precision(ForeignFindings& findings) {
  const bool has_bf16 =
      findings.is_set("bf16") && !is_null(*findings.value("bf16"));
  if (has_bf16 && findings.is_set("bfloat16")) {
    findings.warning("precision-conflict",
                     "bfloat16",
                     "bf16 is there too, so this old name of it is not read",
                     "keep bf16 only",
                     Effect::kIgnored);
  }
  const std::string bf16 = has_bf16 ? "bf16" : "bfloat16";
  const bool is_bf16 = deepspeed_flag(findings, bf16 + ".enabled", false);
  const bool is_fp16 = deepspeed_flag(findings, "fp16.enabled", false);
  if (is_bf16 && is_fp16) {
    findings.error("precision-conflict",
                   bf16 + ".enabled",
                   "bf16 and fp16 are both enabled",
                   "leave one of them on");
  }
  if (is_bf16 && !is_fp16) {
    for (const char* key : {"fp16.loss_scale",
                            "fp16.initial_scale_power",
                            "fp16.loss_scale_window",
                            "fp16.hysteresis",
                            "fp16.min_loss_scale"}) {
      if (findings.is_set(key)) {
        findings.note("no-effect",
                      key,
                      "bf16 trains without a loss scale",
                      "leave it out",
                      Effect::kIgnored);
        break;
      }
    }
  }
}

void check_fp16_scale(ForeignFindings& findings) {
  const auto loss_scale =
      deepspeed_number(findings, "fp16.loss_scale").value_or(0.0);
  if (!deepspeed_flag(findings, "fp16.enabled", false) || loss_scale != 0.0) {
    return;
  }
  for (const char* key : {"fp16.loss_scale_window", "fp16.min_loss_scale"}) {
    const std::optional<double> number = deepspeed_number(findings, key);
    if (number && *number <= 0.0) {
      findings.error(
          "out-of-range",
          key,
          fmt::format("{} with a dynamic loss scale (loss_scale 0)", *number),
          "use 1 or more");
    }
  }
}

void check_master_weights(ForeignFindings& findings, int64_t stage) {
  const std::string bf16 = findings.is_set("bf16") ? "bf16." : "bfloat16.";
  const std::string half = bf16 + "bf16_master_weights_and_grads";
  for (const std::string& key :
       {std::string("fp16.fp16_master_weights_and_grads"),
        half,
        bf16 + "bf16_optimizer_states"}) {
    if (stage == 0 && deepspeed_flag(findings, key, false)) {
      findings.error("refused-combination",
                     key,
                     "it needs zero stage 1, 2 or 3, and the stage is 0",
                     "set zero_optimization.stage, or leave it out");
    }
  }
  if (deepspeed_flag(findings, bf16 + "bf16_optimizer_states", false) &&
      !deepspeed_flag(findings, half, false)) {
    findings.error("refused-combination",
                   bf16 + "bf16_optimizer_states",
                   "it needs bf16_master_weights_and_grads",
                   "set that too");
  }
}

void check_reduce_op(ForeignFindings& findings, int64_t stage) {
  const Word op = word_at(findings.config, "gradient_allreduce_op");
  const bool is_sum = op && (op->size() == 3) && ((*op)[0] | 0x20) == 's';
  if (!is_sum) {
    return;
  }
  const ConfigValue* zenflow = findings.value(kZero + ".zenflow");
  const char* other =
      stage == 3 ? "zero stage 3"
      : zenflow != nullptr && !is_null(*zenflow) && !is_auto(*zenflow)
          ? "ZenFlow"
      : deepspeed_flag(findings, "compile.deepcompile", false) ? "DeepCompile"
                                                               : nullptr;
  if (other != nullptr) {
    findings.error("refused-combination",
                   "gradient_allreduce_op",
                   fmt::format("\"sum\" is not supported with {}", other),
                   "use \"mean\"");
  }
}

void check_data(ForeignFindings& findings) {
  const std::string sampling = "data_efficiency.data_sampling.";
  const auto needs = [&](const std::string& section, const char* key) {
    const ConfigValue* enabled = findings.value(section + ".enabled");
    if (enabled != nullptr && deepspeed_truth(*enabled) &&
        !findings.is_set(section + "." + key)) {
      findings.error("refused-combination",
                     section + ".enabled",
                     fmt::format("it needs {}, which is not there", key),
                     fmt::format("set {}.{}", section, key));
    }
  };
  needs(sampling + "curriculum_learning", "curriculum_metrics");
  needs(sampling + "dynamic_batching", "max_tokens");
  for (const char* key : {"autotuning.results_dir", "autotuning.exps_dir"}) {
    const Word folder = word_at(findings.config, key);
    if (folder && folder->empty()) {
      findings.error("out-of-range", key, "it is empty", "name a folder");
    }
  }
}

// Only PipelineModule's engine reads the section.
void check_pipeline(ForeignFindings& findings, int64_t stage) {
  if (findings.is_set("pipeline") && stage >= 2) {
    findings.error(
        "pipeline-zero",
        kZero + ".stage",
        fmt::format("zero stage {} with a pipeline, whose engine asserts a "
                    "stage below 2",
                    stage),
        "use stage 1, or leave pipeline out",
        Effect::kFailsLater);
  }
}

// Python counts on; no tensor does.
void check_beyond(ForeignFindings& findings) {
  for (const ConfigEntry& entry : findings.config.table) {
    const auto* real = std::get_if<double>(&entry.value.data);
    const KeyRow* row = deepspeed_keys().find(entry.key);
    if (real != nullptr && std::abs(*real) >= 0x1p63 && row != nullptr &&
        row->type == KeyType::kWhole) {
      findings.warning("out-of-range",
                       entry.key,
                       fmt::format("{} is beyond 64 bits", *real),
                       "write the number that is meant",
                       Effect::kFailsLater);
    }
  }
}

void check_vocabulary(ForeignFindings& findings) {
  const Whole size = whole_at(findings.config, "vocabulary_size");
  if (size && *size % 8 != 0) {
    findings.note("no-effect",
                  "vocabulary_size",
                  fmt::format("{} is no multiple of 8; DeepSpeed warns of it "
                              "and does nothing else with the key",
                              *size),
                  fmt::format("pad the model's vocabulary to {}",
                              saturating_round_up(*size, 8)));
  }
}

void check_batch_keys(ForeignFindings& findings) {
  const auto is_given = [&](const char* key) {
    const ConfigValue* value = findings.value(key);
    return value != nullptr && !is_null(*value);
  };
  if (!is_given("train_batch_size") &&
      !is_given("train_micro_batch_size_per_gpu")) {
    // The Trainer fills "auto" alone; other programs put in what is missing.
    const bool is_trainers = has_auto(findings.config.table);
    findings.add({is_trainers ? Severity::kError : Severity::kWarning,
                  "batch-triangle",
                  "train_batch_size",
                  {findings.config.file, 0, 0},
                  fmt::format("neither train_batch_size nor "
                              "train_micro_batch_size_per_gpu is given, and "
                              "DeepSpeed stops{}",
                              is_trainers ? ""
                                          : " unless the program sets one, as "
                                            "Lightning does"),
                  "set one of them, or both",
                  Effect::kRefused,
                  {}});
  }
}

void check_clipping(ForeignFindings& findings) {
  if (!findings.is_set("gradient_clipping") &&
      deepspeed_default_clipping(findings.context.version) > 0.0) {
    findings.note("default-changed",
                  "gradient_clipping",
                  "it is left out: DeepSpeed clips gradients at 1.0 since "
                  "0.19.3 (June 2026), and before it did not clip",
                  "set it: 1.0, or 0 for none");
  }
}

}  // namespace

std::string_view deepspeed_fork(const ForeignFindings& findings) {
  for (const char* key : {"pipe-parallel-size",
                          "pipe_parallel_size",
                          "model-parallel-size",
                          "model_parallel_size"}) {
    if (findings.is_set(key)) {
      return "GPT-NeoX";
    }
  }
  // "fp16": {"type": "bfloat16"}.
  return findings.is_set("fp16.type") ? "DeeperSpeed" : "";
}

double deepspeed_default_clipping(const std::string& version) {
  return version.empty() || compare_versions(version, "0.19.3") >= 0 ? 1.0
                                                                     : 0.0;
}

void check_deepspeed(ForeignFindings& findings) {
  check_keys(findings,
             deepspeed_keys(),
             {.unknown = KeyUse::kIgnored,
              .misfit = deepspeed_misfit,
              .fork = deepspeed_fork(findings)});
  const std::optional<int64_t> stage = deepspeed_stage(findings);
  check_auto(findings);
  check_precision(findings);
  check_fp16_scale(findings);
  if (deepspeed_is_elastic(findings)) {
    check_deepspeed_elastic(findings);
  } else {
    check_batch_keys(findings);
  }
  check_data(findings);
  check_beyond(findings);
  check_vocabulary(findings);
  check_clipping(findings);
  check_deepspeed_optimizer(findings, stage.value_or(0));
  if (stage) {
    check_master_weights(findings, *stage);
    check_reduce_op(findings, *stage);
    check_pipeline(findings, *stage);
    check_deepspeed_zero(findings, *stage);
    check_deepspeed_groups(findings, *stage);
  }
}

}  // namespace triax
