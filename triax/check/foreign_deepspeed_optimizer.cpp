// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/config/nearest.h"
#include "triax/config/problem.h"
#include "triax/foreign/deepspeed_parameters.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

const std::string kOffload = "zero_optimization.offload_optimizer.device";

bool holds(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string did_you_mean(const std::string& name,
                         std::vector<std::string_view> words,
                         const std::vector<std::string_view>& others) {
  words.insert(words.end(), others.begin(), others.end());
  const std::string near = nearest(name, words);
  return near.empty() ? fmt::format("use one of {}", fmt::join(words, ", "))
                      : fmt::format("did you mean {}?", near);
}

// 0.19.8 dropped them.
bool is_old_optimizer(const ForeignFindings& findings,
                      const std::string& name) {
  const std::string& version = findings.context.version;
  return holds(old_deepspeed_optimizers(), lower(name)) && !version.empty() &&
         compare_versions(version, "0.19.8") < 0;
}

void check_name(ForeignFindings& findings, const std::string& name) {
  if (is_old_optimizer(findings, name)) {
    return;
  }
  if (holds(deepspeed_optimizers(), lower(name)) ||
      holds(torch_optimizers(), name)) {
    return;
  }
  if (holds(old_deepspeed_optimizers(), lower(name))) {
    findings.error("optimizer-choice",
                   "optimizer.type",
                   fmt::format("DeepSpeed 0.19.8 dropped {}", in_quotes(name)),
                   "use adam, or DeepSpeed 0.19.7",
                   Effect::kFailsLater);
    return;
  }
  if (const std::string_view fork = deepspeed_fork(findings); !fork.empty()) {
    findings.not_judged(
        fmt::format("optimizer.type {}: a value of {}", in_quotes(name), fork));
    return;
  }
  findings.error(
      "optimizer-choice",
      "optimizer.type",
      in_quotes(name) + " is no optimizer of DeepSpeed 0.19.8 or torch.optim",
      did_you_mean(name, deepspeed_optimizers(), torch_optimizers()),
      Effect::kFailsLater);
}

// ZeRO asserts that it has been tested with the optimizer.
void check_tested(ForeignFindings& findings,
                  const std::string& name,
                  int64_t stage) {
  static const std::vector<std::string_view> tested = {
      "adagrad", "adam", "adamw", "lion", "muon"};
  const ConfigValue* allowed = findings.value("zero_allow_untested_optimizer");
  if (stage > 0 && is_old_optimizer(findings, name)) {
    findings.error(
        "optimizer-choice",
        "optimizer.type",
        fmt::format("{} asserts that ZeRO is off, and the stage is {}",
                    in_quotes(name),
                    stage),
        "use stage 0, or adam",
        Effect::kFailsLater);
    return;
  }
  const bool is_known = holds(deepspeed_optimizers(), lower(name)) ||
                        holds(torch_optimizers(), name);
  if (stage > 0 && is_known && !holds(tested, lower(name)) &&
      (allowed == nullptr || !deepspeed_truth(*allowed))) {
    findings.error("optimizer-choice",
                   "optimizer.type",
                   fmt::format("zero stage {} was not tested with {}, and "
                               "asserts that you know",
                               stage,
                               in_quotes(name)),
                   "set zero_allow_untested_optimizer to true",
                   Effect::kFailsLater);
  }
}

void check_max_grad_norm(ForeignFindings& findings) {
  const std::string path = "optimizer.params.max_grad_norm";
  const ConfigValue* norm = findings.value(path);
  if (norm == nullptr) {
    return;
  }
  const bool is_text = std::holds_alternative<std::string>(norm->data);
  findings.error("optimizer-choice",
                 path,
                 "it is no parameter of an optimizer",
                 "use gradient_clipping",
                 is_text ? Effect::kRefused : Effect::kFailsLater);
}

// The parameter that others call so; empty: none of these.
std::string parameter_meant(const std::string& name,
                            const std::vector<std::string_view>& known) {
  const std::string meant =
      name == "learning_rate"                                ? "lr"
      : name == "epsilon" || name == "adam_eps"              ? "eps"
      : name == "wd"                                         ? "weight_decay"
      : name == "beta1" || name == "beta2" || name == "beta" ? "betas"
                                                             : "";
  return holds(known, meant) ? meant : "";
}

void add_unknown(ForeignFindings& findings,
                 const std::string& section,
                 const ConfigEntry& entry,
                 const ParameterRow& row) {
  const auto known = split_words(row.parameters);
  const std::string meant = parameter_meant(entry.key, known);
  const std::string near = meant.empty() ? nearest(entry.key, known) : meant;
  const bool is_torch_verbose =
      entry.key == "verbose" && row.class_name.starts_with("torch's");
  const bool is_doubtful =
      is_torch_verbose || (row.ignores_unknown && near.empty());
  Problem problem{
      is_doubtful ? Severity::kWarning : Severity::kError,
      section == "optimizer" ? "optimizer-choice" : "scheduler-choice",
      section + ".params." + entry.key,
      entry.key_position};
  problem.message =
      row.ignores_unknown
          ? fmt::format("{} passes over it: no such parameter", row.class_name)
      : is_torch_verbose
          ? fmt::format("{} took it in old releases, and stops at it now",
                        row.class_name)
          : fmt::format("{} has no such parameter: a TypeError as it is made",
                        row.class_name);
  problem.fix = near.empty()
                    ? fmt::format("remove it; it takes {}",
                                  fmt::join(split_words(row.parameters), ", "))
                    : fmt::format("did you mean {}?", near);
  problem.effect = row.ignores_unknown ? Effect::kIgnored : Effect::kFailsLater;
  if (!near.empty() && meant != "betas" &&
      !findings.is_set(fmt::format("{}.params.{}", section, near))) {
    problem.edit = SafeEdit{entry.key_position, entry.key, near};
  }
  findings.add(std::move(problem));
}

void check_parameters(ForeignFindings& findings,
                      const std::string& section,
                      const ParameterRow& row) {
  const ConfigValue* value = findings.value(section + ".params");
  const auto* table =
      value == nullptr ? nullptr : std::get_if<ConfigTable>(&value->data);
  if (table == nullptr) {
    return;
  }
  const auto known = split_words(row.parameters);
  for (const ConfigEntry& entry : *table) {
    // max_grad_norm has a rule of its own.
    if (!holds(known, entry.key) && entry.key != "max_grad_norm") {
      add_unknown(findings, section, entry, row);
    }
  }
}

bool flag_of_params(const ForeignFindings& findings,
                    const char* name,
                    bool or_else) {
  const ConfigValue* value =
      findings.value(fmt::format("optimizer.params.{}", name));
  return value == nullptr ? or_else : deepspeed_truth(*value);
}

void check_optimizer_parameters(ForeignFindings& findings,
                                const std::string& type) {
  const Word device = word_at(findings.config, kOffload);
  const Flag old = flag_at(findings.config, "zero_optimization.cpu_offload");
  const bool is_offloaded =
      (device && (*device == "cpu" || *device == "nvme")) ||
      old.value_or(false);
  const ParameterRow* row = find_optimizer_parameters(
      {.type = type,
       .is_offloaded = is_offloaded,
       .is_torch_adam = flag_of_params(findings, "torch_adam", false),
       .is_adam_w = flag_of_params(findings, "adam_w_mode", true)});
  if (row == nullptr) {
    return;
  }
  check_parameters(findings, "optimizer", *row);
  check_optimizer_numbers(findings, *row);
  const bool is_fused =
      row->class_name == "FusedAdam" || row->class_name == "FusedLamb";
  if (is_fused && flag_of_params(findings, "amsgrad", false)) {
    findings.error(
        "optimizer-choice",
        "optimizer.params.amsgrad",
        fmt::format("{} has no AMSGrad, and stops at it", row->class_name),
        "leave it out, or set torch_adam to true",
        Effect::kFailsLater);
  }
}

void check_optimizer(ForeignFindings& findings, int64_t stage) {
  const Word type = word_at(findings.config, "optimizer.type");
  if (!type) {
    if (findings.is_set("optimizer.params") &&
        !findings.is_set("optimizer.type")) {
      findings.warning("optimizer-choice",
                       "optimizer.params",
                       "without optimizer.type nothing reads them",
                       "set optimizer.type",
                       Effect::kIgnored);
    }
    return;
  }
  if (*type == "auto") {
    return;
  }
  check_name(findings, *type);
  check_tested(findings, *type, stage);
  check_max_grad_norm(findings);
  check_optimizer_parameters(findings, *type);
  const std::optional<double> scale =
      deepspeed_number(findings, "fp16.loss_scale");
  if (lower(*type) == "lamb" && scale && *scale != 0.0) {
    findings.error("optimizer-choice",
                   "fp16.loss_scale",
                   "lamb needs a dynamic loss scale",
                   "use 0",
                   Effect::kFailsLater);
  }
}

void check_schedule_parameters(ForeignFindings& findings,
                               const ParameterRow& schedule) {
  const ConfigValue* value = findings.value("scheduler.params");
  if (value == nullptr || !std::holds_alternative<ConfigTable>(value->data)) {
    findings.error("scheduler-choice",
                   "scheduler.type",
                   fmt::format("{} is called without scheduler.params, which "
                               "fails even where all have defaults",
                               schedule.name),
                   "set scheduler.params, {} if need be",
                   Effect::kFailsLater);
    return;
  }
  check_parameters(findings, "scheduler", schedule);
  check_schedule_numbers(findings, schedule);
  for (const std::string_view name : split_words(schedule.needed)) {
    if (!findings.is_set(fmt::format("scheduler.params.{}", name))) {
      findings.error("scheduler-choice",
                     "scheduler.params",
                     fmt::format("{} needs {}", schedule.name, name),
                     fmt::format("set scheduler.params.{}", name),
                     Effect::kFailsLater);
    }
  }
}

void check_warmup(ForeignFindings& findings) {
  const std::string path = "scheduler.params.warmup_num_steps";
  const Whole warmup = whole_at(findings.config, path);
  const Whole total =
      whole_at(findings.config, "scheduler.params.total_num_steps");
  if (warmup && *warmup <= 0) {
    findings.error("scheduler-choice",
                   path,
                   fmt::format("{} is not positive", *warmup),
                   "use 1 or more",
                   Effect::kFailsLater);
  }
  if (warmup && total && *total < *warmup) {
    findings.warning("warmup-steps",
                     path,
                     fmt::format("{} steps of warm-up do not fit into {} in "
                                 "all",
                                 *warmup,
                                 *total),
                     fmt::format("use less than {}", *total),
                     Effect::kSilentlyDifferent);
  }
}

// These schedules set the rate themselves: the optimizer's is overwritten.
void check_rate(ForeignFindings& findings, const std::string& name) {
  const Real lr = real_at(findings.config, "optimizer.params.lr");
  if (!lr || (name != "WarmupLR" && name != "WarmupDecayLR")) {
    return;
  }
  const std::string path = "scheduler.params.warmup_max_lr";
  const Real peak = real_at(findings.config, path);
  if (peak && *peak != *lr) {
    findings.warning("lr-order",
                     path,
                     fmt::format("{} rises to {} and stays or decays from "
                                 "there; optimizer.params.lr {} is overwritten",
                                 name,
                                 *peak,
                                 *lr),
                     fmt::format("write {} in both places", *lr),
                     Effect::kSilentlyDifferent);
  } else if (name == "WarmupDecayLR" && !findings.is_set(path) &&
             *lr != 0.001) {
    findings.warning(
        "lr-order",
        "scheduler.params",
        fmt::format("WarmupDecayLR without warmup_max_lr rises "
                    "to 0.001; optimizer.params.lr {} is "
                    "overwritten",
                    *lr),
        fmt::format("set scheduler.params.warmup_max_lr to {}", *lr),
        Effect::kSilentlyDifferent);
  }
}

void check_schedule(ForeignFindings& findings) {
  const Word type = word_at(findings.config, "scheduler.type");
  if (!type) {
    if (findings.is_set("scheduler.params") &&
        !findings.is_set("scheduler.type")) {
      findings.warning("scheduler-choice",
                       "scheduler.params",
                       "without scheduler.type nothing reads them",
                       "set scheduler.type",
                       Effect::kIgnored);
    }
    return;
  }
  const ParameterRow* schedule = find_schedule_parameters(*type);
  if (schedule != nullptr) {
    check_schedule_parameters(findings, *schedule);
    check_warmup(findings);
    check_rate(findings, *type);
  } else if (*type != "auto" && !holds(schedule_names(), *type)) {
    findings.error("scheduler-choice",
                   "scheduler.type",
                   in_quotes(*type) +
                       " is no schedule of DeepSpeed or "
                       "torch.optim.lr_scheduler",
                   did_you_mean(*type, schedule_names(), {}),
                   Effect::kFailsLater);
  }
}

// "optimizer.lr": the class's own parameters, beside params instead of in it.
void place_parameters(ForeignFindings& findings) {
  const auto is_parameter = [](std::span<const ParameterRow> rows,
                               std::string_view name) {
    return std::any_of(
        rows.begin(), rows.end(), [name](const ParameterRow& row) {
          return holds(split_words(row.parameters), name);
        });
  };
  for (Problem& problem : findings.problems) {
    for (const std::string section : {"optimizer", "scheduler"}) {
      const std::string prefix = section + ".";
      const auto rows = section == "optimizer" ? optimizer_parameter_rows()
                                               : schedule_parameter_rows();
      if (problem.rule == "unknown-key" && problem.field.starts_with(prefix) &&
          is_parameter(rows, problem.field.substr(prefix.size()))) {
        problem.rule = "misplaced-key";
        problem.severity = Severity::kError;
        problem.fix = fmt::format("it belongs in {}params", prefix);
        problem.edit.reset();
      }
    }
  }
}

}  // namespace

void check_deepspeed_optimizer(ForeignFindings& findings, int64_t stage) {
  check_optimizer(findings, stage);
  check_scale_power(findings);
  check_schedule(findings);
  place_parameters(findings);
}

}  // namespace triax
