// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/config/problem.h"
#include "triax/foreign/hjson.h"

namespace triax {
namespace {

const std::string kZero = "zero_optimization.";
const std::string kParameters = kZero + "offload_param";
const std::string kOptimizer = kZero + "offload_optimizer";

bool is_given(const ForeignFindings& findings, const std::string& path) {
  const ConfigValue* value = findings.value(path);
  const auto* text =
      value == nullptr ? nullptr : std::get_if<std::string>(&value->data);
  return value != nullptr && (text == nullptr || *text != "auto");
}

// "cpu", "nvme", or empty.
std::string device_of(const ForeignFindings& findings,
                      const std::string& section) {
  const Word device = word_at(findings.config, section + ".device");
  return device && (*device == "cpu" || *device == "nvme") ? *device : "";
}

void check_stage_of_offload(ForeignFindings& findings, int64_t stage) {
  const std::string device = device_of(findings, kParameters);
  if (!device.empty() && stage < 3) {
    findings.error(
        "offload-no-effect",
        kParameters + ".device",
        fmt::format("parameter offload needs stage 3, and the stage is {}: "
                    "nothing goes to {}",
                    stage,
                    device),
        "use stage 3, or leave offload_param out",
        Effect::kIgnored);
  }
  if (!device_of(findings, kOptimizer).empty() && stage == 0) {
    findings.error("offload-no-effect",
                   kOptimizer + ".device",
                   "optimizer offload needs stage 1, 2 or 3, and the stage "
                   "is 0",
                   "set zero_optimization.stage",
                   Effect::kFailsLater);
  }
  if (device_of(findings, kOptimizer) == "nvme" && (stage == 1 || stage == 2)) {
    findings.warning(
        "offload-no-effect",
        kOptimizer + ".device",
        fmt::format("stage {} keeps the optimizer's states in the host's "
                    "memory; only stage 3 writes them to nvme",
                    stage),
        "use stage 3, or say \"cpu\" and have the memory",
        Effect::kSilentlyDifferent);
  }
}

void check_paths(ForeignFindings& findings, int64_t stage) {
  for (const std::string& section : {kParameters, kOptimizer}) {
    const ConfigValue* path = findings.value(section + ".nvme_path");
    const bool is_missing = path == nullptr || is_null(*path);
    if (stage == 3 && device_of(findings, section) == "nvme" && is_missing) {
      findings.error(
          "refused-combination",
          section + ".device",
          "\"nvme\" needs nvme_path, which is not there",
          fmt::format("set {}.nvme_path to a folder on the drive", section),
          Effect::kFailsLater);
    }
    if (device_of(findings, section) == "cpu" && !is_missing) {
      findings.note("offload-no-effect",
                    section + ".nvme_path",
                    "the device is cpu",
                    "leave it out",
                    Effect::kIgnored);
    }
  }
  const bool has_nvme = device_of(findings, kParameters) == "nvme" ||
                        device_of(findings, kOptimizer) == "nvme";
  if (findings.is_set("aio") && !has_nvme) {
    findings.note("offload-no-effect",
                  "aio",
                  "nothing is offloaded to nvme, so it is not used",
                  "leave it out",
                  Effect::kIgnored);
  }
}

// Legal under every stage, read by stage 3 alone.
void check_stage_three_keys(ForeignFindings& findings, int64_t stage) {
  if (stage == 3) {
    return;
  }
  const auto* table = findings.value("zero_optimization");
  const auto* entries =
      table == nullptr ? nullptr : std::get_if<ConfigTable>(&table->data);
  if (entries == nullptr) {
    return;
  }
  std::vector<std::string> names;
  for (const ConfigEntry& entry : *entries) {
    if (entry.key.starts_with("stage3_") || entry.key == "sub_group_size") {
      names.push_back(entry.key);
    }
  }
  if (!names.empty()) {
    findings.note("no-effect",
                  kZero + names.front(),
                  fmt::format("only stage 3 reads {}, and the stage is {}",
                              fmt::join(names, ", "),
                              stage),
                  "leave them out",
                  Effect::kIgnored);
  }
}

void check_old_names(ForeignFindings& findings) {
  const std::pair<const char*, const char*> kPairs[] = {
      {"cpu_offload", "offload_optimizer"},
      {"cpu_offload_param", "offload_param"},
      {"stage3_gather_fp16_weights_on_model_save",
       "stage3_gather_16bit_weights_on_model_save"},
      {"stage3_gather_fp16_weights_on_model_save",
       "gather_16bit_weights_on_model_save"}};
  for (const auto& [old_name, new_name] : kPairs) {
    if (is_given(findings, kZero + old_name) &&
        is_given(findings, kZero + new_name)) {
      findings.error("refused-combination",
                     kZero + old_name,
                     fmt::format("it is the old name of {}, which is there "
                                 "too",
                                 new_name),
                     "remove the old one");
    }
  }
}

// pydantic takes a field by its alias or its name, not by both.
void check_two_names(ForeignFindings& findings) {
  for (const char* name : {"prefetch_bucket_size",
                           "param_persistence_threshold",
                           "model_persistence_threshold",
                           "max_live_parameters",
                           "max_reuse_distance",
                           "gather_16bit_weights_on_model_save",
                           "module_granularity_threshold",
                           "use_all_reduce_for_fetch_params",
                           "allgather_sequential"}) {
    const std::string alias = std::string("stage3_") + name;
    if (is_given(findings, kZero + name) && is_given(findings, kZero + alias)) {
      findings.error(
          "refused-combination",
          kZero + name,
          fmt::format("{} is the same field, and is there too", alias),
          "keep one of them");
    }
  }
}

void check_stage_limits(ForeignFindings& findings, int64_t stage) {
  const std::string norm = kZero + "compute_grad_norm";
  if (!deepspeed_flag(findings, norm, true) && stage != 1 && stage != 2) {
    findings.error(
        "refused-combination",
        norm,
        fmt::format("false needs stage 1 or 2, and the stage is {}", stage),
        "leave it out");
  }
  const std::optional<double> ratio =
      deepspeed_number(findings, kOptimizer + ".ratio");
  if (ratio && *ratio < 1.0 && stage != 3) {
    findings.error("refused-combination",
                   kOptimizer + ".ratio",
                   fmt::format("{} offloads a part, which needs stage 3, and "
                               "the stage is {}",
                               *ratio,
                               stage),
                   "use stage 3 or 1.0");
  }
  if (deepspeed_flag(findings, kZero + "legacy_stage1", false)) {
    findings.error("refused-combination",
                   kZero + "legacy_stage1",
                   "the old stage 1 is gone since DeepSpeed 0.5.9",
                   "remove it",
                   Effect::kFailsLater);
  }
  if (stage == 3 &&
      deepspeed_flag(findings, kZero + "elastic_checkpoint", false)) {
    findings.note("no-effect",
                  kZero + "elastic_checkpoint",
                  "stage 3 no longer has elastic checkpoints",
                  "use universal checkpoints (checkpoint.load_universal)",
                  Effect::kIgnored);
  }
}

// The reduce-scatter of stages 2 and 3 averages after it has summed.
void check_scaling(ForeignFindings& findings, int64_t stage) {
  if (stage < 2 || !deepspeed_flag(findings, kZero + "reduce_scatter", true)) {
    return;
  }
  const ConfigValue* prescale = findings.value("prescale_gradients");
  const Real factor = real_at(findings.config, "gradient_predivide_factor");
  if (prescale != nullptr && deepspeed_truth(*prescale)) {
    findings.error("refused-combination",
                   "prescale_gradients",
                   fmt::format("stage {} with reduce_scatter asserts that it "
                               "is off",
                               stage),
                   "leave it out, or set reduce_scatter to false",
                   Effect::kFailsLater);
  }
  if (factor && *factor != 1.0) {
    findings.error(
        "refused-combination",
        "gradient_predivide_factor",
        fmt::format("stage {} with reduce_scatter asserts 1.0", stage),
        "leave it out, or set reduce_scatter to false",
        Effect::kFailsLater);
  }
}

}  // namespace

void check_deepspeed_zero(ForeignFindings& findings, int64_t stage) {
  check_stage_of_offload(findings, stage);
  check_paths(findings, stage);
  check_stage_three_keys(findings, stage);
  check_old_names(findings);
  check_two_names(findings);
  check_stage_limits(findings, stage);
  check_scaling(findings, stage);
}

}  // namespace triax
