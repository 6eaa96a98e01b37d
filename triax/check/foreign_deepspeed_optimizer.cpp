// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/config/nearest.h"
#include "triax/config/problem.h"

namespace triax {
namespace {

// DEEPSPEED_OPTIMIZERS, without regard to case.
const std::vector<std::string_view> kOwnOptimizers = {"adagrad",
                                                      "adam",
                                                      "adamw",
                                                      "lamb",
                                                      "muadam",
                                                      "muadamw",
                                                      "musgd",
                                                      "lion",
                                                      "muon"};
// torch.optim's classes, PyTorch 2.13.
const std::vector<std::string_view> kTorchOptimizers = {"Adadelta",
                                                        "Adafactor",
                                                        "Adagrad",
                                                        "Adam",
                                                        "AdamW",
                                                        "Adamax",
                                                        "ASGD",
                                                        "LBFGS",
                                                        "Muon",
                                                        "NAdam",
                                                        "RAdam",
                                                        "RMSprop",
                                                        "Rprop",
                                                        "SGD",
                                                        "SparseAdam"};

struct Schedule {
  std::string_view name;
  std::string_view parameters;
  std::string_view needed;
};

constexpr Schedule kSchedules[] = {
    {"LRRangeTest",
     "lr_range_test_min_lr | lr_range_test_step_size | "
     "lr_range_test_step_rate | lr_range_test_staircase | "
     "last_batch_iteration",
     ""},
    {"OneCycle",
     "cycle_min_lr | cycle_max_lr | decay_lr_rate | cycle_first_step_size | "
     "cycle_second_step_size | cycle_first_stair_count | "
     "cycle_second_stair_count | decay_step_size | cycle_momentum | "
     "cycle_min_mom | cycle_max_mom | decay_mom_rate | last_batch_iteration",
     "cycle_min_lr | cycle_max_lr"},
    {"WarmupLR",
     "warmup_min_lr | warmup_max_lr | warmup_num_steps | warmup_type | "
     "last_batch_iteration",
     ""},
    {"WarmupDecayLR",
     "total_num_steps | warmup_min_lr | warmup_max_lr | warmup_num_steps | "
     "warmup_type | last_batch_iteration",
     "total_num_steps"},
    {"WarmupCosineLR",
     "total_num_steps | warmup_min_ratio | warmup_num_steps | cos_min_ratio | "
     "warmup_type | last_batch_iteration",
     "total_num_steps"},
};

// torch.optim.lr_scheduler's classes, PyTorch 2.13.
const std::vector<std::string_view> kTorchSchedules = {
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR"};

bool holds(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string lower(std::string text) {
  for (char& byte : text) {
    byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  }
  return text;
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
  static const std::vector<std::string_view> old = {
      "onebitadam", "onebitlamb", "zerooneadam"};
  const std::string& version = findings.context.version;
  return holds(old, lower(name)) && !version.empty() &&
         compare_versions(version, "0.19.8") < 0;
}

void check_name(ForeignFindings& findings, const std::string& name) {
  if (is_old_optimizer(findings, name)) {
    return;
  }
  if (holds(kOwnOptimizers, lower(name)) || holds(kTorchOptimizers, name)) {
    return;
  }
  findings.error(
      "optimizer-choice",
      "optimizer.type",
      in_quotes(name) + " is no optimizer of DeepSpeed 0.19.8 or torch.optim",
      did_you_mean(name, kOwnOptimizers, kTorchOptimizers),
      Effect::kFailsLater);
}

// ZeRO asserts that it has been tested with the optimizer.
void check_tested(ForeignFindings& findings,
                  const std::string& name,
                  int64_t stage) {
  static const std::vector<std::string_view> tested = {
      "adagrad", "adam", "adamw", "lion", "muon"};
  const ConfigValue* allowed = findings.value("zero_allow_untested_optimizer");
  const bool is_known =
      holds(kOwnOptimizers, lower(name)) || holds(kTorchOptimizers, name);
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

const Schedule* find_schedule(std::string_view name) {
  for (const Schedule& schedule : kSchedules) {
    if (schedule.name == name) {
      return &schedule;
    }
  }
  return nullptr;
}

void check_parameters(ForeignFindings& findings, const Schedule& schedule) {
  const ConfigValue* value = findings.value("scheduler.params");
  const auto* table =
      value == nullptr ? nullptr : std::get_if<ConfigTable>(&value->data);
  if (table == nullptr) {
    findings.error("scheduler-choice",
                   "scheduler.type",
                   fmt::format("{} is called without scheduler.params, which "
                               "fails even where all have defaults",
                               schedule.name),
                   "set scheduler.params, {} if need be",
                   Effect::kFailsLater);
    return;
  }
  const auto known = split_words(schedule.parameters);
  for (const ConfigEntry& entry : *table) {
    if (!holds(known, entry.key)) {
      const std::string near = nearest(entry.key, known);
      Problem problem{Severity::kError,
                      "scheduler-choice",
                      "scheduler.params." + entry.key,
                      entry.key_position};
      problem.message = fmt::format("{} has no such parameter", schedule.name);
      problem.fix =
          near.empty() ? "remove it" : fmt::format("did you mean {}?", near);
      problem.effect = Effect::kFailsLater;
      findings.add(std::move(problem));
    }
  }
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
  const Schedule* schedule = find_schedule(*type);
  if (schedule != nullptr) {
    check_parameters(findings, *schedule);
    check_warmup(findings);
    check_rate(findings, *type);
  } else if (*type != "auto" && !holds(kTorchSchedules, *type)) {
    std::vector<std::string_view> own;
    for (const Schedule& known : kSchedules) {
      own.push_back(known.name);
    }
    findings.error("scheduler-choice",
                   "scheduler.type",
                   in_quotes(*type) +
                       " is no schedule of DeepSpeed or "
                       "torch.optim.lr_scheduler",
                   did_you_mean(*type, own, kTorchSchedules),
                   Effect::kFailsLater);
  }
}

}  // namespace

void check_deepspeed_optimizer(ForeignFindings& findings, int64_t stage) {
  check_optimizer(findings, stage);
  check_schedule(findings);
}

}  // namespace triax
