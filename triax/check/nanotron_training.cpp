// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "triax/base/saturating.h"
#include "triax/check/nanotron_rules.h"
#include "triax/foreign/nanotron.h"

namespace triax {
namespace {

const std::string kSchedule = "optimizer.learning_rate_scheduler.";
constexpr int64_t kTrial = 1000;  // steps
constexpr int64_t kMaxSteps = int64_t{1} << 40;

bool is_steps(int64_t steps) {
  return steps >= 0 && steps < kMaxSteps;
}

// ZeroDistributedOptimizer is stage 1, for every stage above 0.
void check_zero(ForeignFindings& findings) {
  const std::string key = "optimizer.zero_stage";
  const Whole stage = whole_at(findings.config, key);
  if (stage && *stage > 1) {
    findings.warning("unknown-value",
                     key,
                     fmt::format("{} is taken as 1: gradients and weights are "
                                 "not sharded",
                                 *stage),
                     "use 0 or 1",
                     Effect::kSilentlyDifferent);
  } else if (stage && *stage < 0) {
    findings.warning("unknown-value",
                     key,
                     fmt::format("{} is taken as 0", *stage),
                     "use 0 or 1",
                     Effect::kSilentlyDifferent);
  }
}

// LRSchedulerArgs.__post_init__.
void check_styles(ForeignFindings& findings) {
  const std::string key = kSchedule + "lr_decay_style";
  const std::string style = word_at(findings.config, key).value_or("linear");
  const bool is_old = is_old_nanotron(findings.config);
  if (style != "linear" && style != "cosine" && (is_old || style != "1-sqrt")) {
    findings.error(
        "unknown-value",
        key,
        fmt::format("there is no style {}", in_quotes(style)),
        is_old ? "use linear or cosine" : "use linear, cosine or 1-sqrt");
  }
}

struct Decay {
  int64_t steps = 0;
  int64_t warmup = 0;
  int64_t start = 0;
  int64_t length = 0;
  bool has_start = false;
  bool has_length = false;
};

// helpers.py's lr_scheduler_builder, with the length that Config fills in.
Decay decay_of(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  Decay decay;
  decay.steps = facts.steps.value_or(0);
  decay.warmup = facts.warmup_steps.value_or(0);
  const Whole start =
      whole_at(findings.config, kSchedule + "lr_decay_starting_step");
  decay.has_start = start.is_set();
  decay.start = start.value_or(decay.warmup);
  decay.has_length = facts.decay_steps.is_set();
  const bool can_subtract = is_steps(decay.steps) && is_steps(decay.warmup);
  decay.length = facts.decay_steps.value_or(
      can_subtract ? std::max<int64_t>(0, decay.steps - decay.warmup) : 0);
  return decay;
}

void check_decay(ForeignFindings& findings) {
  const Decay decay = decay_of(findings);
  if (decay.steps < 1 || !is_steps(decay.steps) || !is_steps(decay.warmup) ||
      !is_steps(decay.start) || !is_steps(decay.length)) {
    return;
  }
  if (decay.warmup > decay.steps) {
    findings.warning("warmup-steps",
                     kSchedule + "lr_warmup_steps",
                     fmt::format("the run of {} steps ends before warm-up's {}",
                                 decay.steps,
                                 decay.warmup),
                     fmt::format("use {} or less", decay.steps),
                     Effect::kSilentlyDifferent);
    return;
  }
  if (decay.start < decay.warmup) {
    findings.warning("warmup-steps",
                     kSchedule + "lr_decay_starting_step",
                     fmt::format("the decay starts at {}, before warm-up's {} "
                                 "steps are over",
                                 decay.start,
                                 decay.warmup),
                     fmt::format("use {} or more", decay.warmup),
                     Effect::kSilentlyDifferent);
  } else if (decay.has_start && decay.start > decay.steps) {
    findings.warning("warmup-steps",
                     kSchedule + "lr_decay_starting_step",
                     fmt::format("the decay starts at {}, and the run ends at "
                                 "{}: the rate never decays",
                                 decay.start,
                                 decay.steps),
                     fmt::format("use less than {}, and lr_decay_steps for the "
                                 "rest",
                                 decay.steps),
                     Effect::kSilentlyDifferent);
  } else if (saturating_add(decay.start, decay.length) > decay.steps &&
             decay.start < decay.steps) {
    findings.warning(
        "warmup-steps",
        decay.has_length ? kSchedule + "lr_decay_steps"
                         : kSchedule + "lr_decay_starting_step",
        fmt::format("the decay runs from {} to {} + {} = {}{}, and the run "
                    "ends at {} with {:.0f} % of it done",
                    decay.start,
                    decay.start,
                    decay.length,
                    saturating_add(decay.start, decay.length),
                    decay.has_length
                        ? ""
                        : " (lr_decay_steps is train_steps - lr_warmup_steps "
                          "by default)",
                    decay.steps,
                    100.0 *
                        static_cast<double>(
                            saturating_subtract(decay.steps, decay.start)) /
                        static_cast<double>(decay.length)),
        fmt::format("lr_decay_steps: {}",
                    saturating_subtract(decay.steps, decay.start)),
        Effect::kSilentlyDifferent);
  }
}

void check_rates(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (facts.lr && !findings.is_set(kSchedule + "min_decay_lr")) {
    findings.warning("lr-order",
                     kSchedule + "learning_rate",
                     fmt::format("min_decay_lr is not given, and is {:g} then: "
                                 "the rate never decays",
                                 *facts.lr),
                     "give min_decay_lr",
                     Effect::kSilentlyDifferent);
  } else if (facts.lr && facts.min_lr && *facts.min_lr > *facts.lr) {
    findings.warning("lr-order",
                     kSchedule + "min_decay_lr",
                     fmt::format("{:g} is more than learning_rate {:g}: the "
                                 "rate rises",
                                 *facts.min_lr,
                                 *facts.lr),
                     fmt::format("use at most {:g}", *facts.lr),
                     Effect::kSilentlyDifferent);
  }
}

// trainer.py: a checkpoint every so many steps, and after the last one by
// save_final_state, which 0.4 has not.
void check_checkpoints(ForeignFindings& findings) {
  const std::string key = "checkpoints.checkpoint_interval";
  const Whole every = whole_at(findings.config, key);
  const int64_t steps = findings.facts.steps.value_or(0);
  const bool saves_last =
      !is_old_nanotron(findings.config) &&
      flag_at(findings.config, "checkpoints.save_final_state").value_or(true);
  if (every && *every > steps && steps > 0 && !saves_last) {
    // Who tries something for some steps has nothing to save.
    findings.add({steps > kTrial ? Severity::kWarning : Severity::kNote,
                  "no-effect",
                  key,
                  {},
                  fmt::format("{} is more than the {} steps: nothing is ever "
                              "saved",
                              *every,
                              steps),
                  fmt::format("use {} or less", steps),
                  Effect::kSilentlyDifferent,
                  {}});
  }
  const Whole eval = whole_at(findings.config, "lighteval.eval_interval");
  if (eval && every && *every > 0 && *eval % *every != 0 &&
      findings.is_set("s3_upload.upload_s3_path")) {
    findings.error(
        "refused-combination",
        "lighteval.eval_interval",
        fmt::format(
            "{} is no multiple of checkpoint_interval {}", *eval, *every),
        fmt::format("use {}", (*eval / *every + 1) * *every));
  }
}

// Config.__post_init__ of the two versions.
void check_profiler(ForeignFindings& findings) {
  const int64_t steps = findings.facts.steps.value_or(0);
  if (!word_at(findings.config, "profiler.profiler_export_path") || steps < 1) {
    return;
  }
  if (is_old_nanotron(findings.config)) {
    if (steps >= 10) {
      findings.error("refused-combination",
                     "tokens.train_steps",
                     fmt::format("{} steps with a profiler: 0.4 takes less "
                                 "than 10",
                                 steps),
                     "use 9, or remove the profiler");
    }
    return;
  }
  const auto number = [&](const char* name, int64_t or_else) {
    const int64_t value =
        whole_at(findings.config, std::string("profiler.") + name)
            .value_or(or_else);
    return std::clamp<int64_t>(value, 0, 1 << 20);
  };
  const int64_t total =
      number("skip_first", 3) +
      number("repeat", 1) *
          (number("wait", 1) + number("warmup", 1) + number("active", 1));
  if (steps < total) {
    findings.error("refused-combination",
                   "profiler.profiler_export_path",
                   fmt::format("the profiler's skip_first + repeat * (wait + "
                               "warmup + active) = {} steps are more than {}",
                               total,
                               steps),
                   fmt::format("train {} steps or more", total));
  }
}

struct Stage {
  std::string path;
  std::string name;
  int64_t start = 0;
};

// NanosetDatasetsArgs.__post_init__: one weight for each folder of a list.
void check_dataset(ForeignFindings& findings,
                   const ConfigTable& stage,
                   const std::string& path) {
  const std::string key = "data.dataset.dataset_weights";
  const ConfigValue* folders = find_value(stage, "data.dataset.dataset_folder");
  const ConfigValue* weights = find_value(stage, key);
  const auto* listed =
      weights == nullptr ? nullptr : std::get_if<ConfigArray>(&weights->data);
  if (folders == nullptr || listed == nullptr) {
    return;
  }
  const auto* list = std::get_if<ConfigArray>(&folders->data);
  if (list != nullptr && list->size() != listed->size()) {
    findings.add({Severity::kError,
                  "refused-combination",
                  path + key,
                  weights->position,
                  fmt::format("there are {} weights for {} folders",
                              listed->size(),
                              list->size()),
                  fmt::format("give {}", list->size()),
                  Effect::kRefused,
                  {}});
  } else if (std::holds_alternative<std::string>(folders->data)) {
    findings.add({Severity::kNote,
                  "no-effect",
                  path + key,
                  weights->position,
                  "a single folder has the weight 1, whatever stands here",
                  "remove it, or list the folders",
                  Effect::kIgnored,
                  {}});
  }
}

void check_stage(ForeignFindings& findings,
                 const ConfigTable& table,
                 const Stage& stage) {
  for (const char* key : {"name", "start_training_step", "data"}) {
    if (find_value(table, key) == nullptr) {
      findings.error(
          "missing-key", stage.path + key, "it has no default", "add it");
    }
  }
  check_dataset(findings, table, stage.path);
  const int64_t steps = findings.facts.steps.value_or(0);
  if (stage.start > steps && steps > 0) {
    findings.warning("no-effect",
                     stage.path + "start_training_step",
                     fmt::format("the run has {} steps: the stage {} never "
                                 "begins",
                                 steps,
                                 in_quotes(stage.name)),
                     fmt::format("use {} or less", steps),
                     Effect::kIgnored);
  }
  const ConfigValue* length = find_value(table, "sequence_length");
  const auto* tokens =
      length == nullptr ? nullptr : std::get_if<int64_t>(&length->data);
  const int64_t all = findings.facts.sequence.value_or(0);
  if (tokens != nullptr && all > 0 && *tokens != all) {
    findings.add({Severity::kError,
                  "refused-combination",
                  stage.path + "sequence_length",
                  length->position,
                  fmt::format("{} is not tokens.sequence_length {}, which the "
                              "trainer asserts after the stage's first step",
                              *tokens,
                              all),
                  fmt::format("use {}", all),
                  Effect::kFailsLater});
  }
}

void check_stages(ForeignFindings& findings) {
  const ConfigValue* value = findings.value("data_stages");
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  if (items == nullptr) {
    return;
  }
  std::set<std::string> names;
  std::set<int64_t> starts;
  for (size_t i = 0; i < items->size(); ++i) {
    const auto* table = std::get_if<ConfigTable>(&(*items)[i].data);
    if (table == nullptr) {
      continue;
    }
    Stage stage{fmt::format("data_stages.{}.", i), "", 0};
    const ConfigValue* name = find_value(*table, "name");
    const ConfigValue* start = find_value(*table, "start_training_step");
    if (name != nullptr && std::holds_alternative<std::string>(name->data)) {
      stage.name = std::get<std::string>(name->data);
    }
    if (start != nullptr && std::holds_alternative<int64_t>(start->data)) {
      stage.start = std::get<int64_t>(start->data);
    }
    if (!names.insert(stage.name).second ||
        !starts.insert(stage.start).second) {
      findings.add({Severity::kError,
                    "refused-combination",
                    stage.path + "name",
                    (*items)[i].position,
                    fmt::format("another stage has the name {} or the start {} "
                                "too",
                                in_quotes(stage.name),
                                stage.start),
                    "give each its own",
                    Effect::kRefused});
    }
    check_stage(findings, *table, stage);
  }
  if (!starts.contains(1)) {
    findings.error("refused-combination",
                   "data_stages",
                   "no stage starts at step 1",
                   "start_training_step: 1 for the first");
  }
}

// trainer.py has no validation: what would start one is commented out.
void check_validation(ForeignFindings& findings) {
  const std::string key = "tokens.val_check_interval";
  const Whole every = whole_at(findings.config, key);
  if (every && *every >= 0) {
    findings.note("ignored-key",
                  key,
                  *every == 0 ? "0 is no interval, and nanotron's trainer has "
                                "no validation that would read it"
                              : "nanotron's trainer has no validation that "
                                "would read it",
                  "use -1",
                  Effect::kIgnored);
  }
}

bool takes_texts(const ConfigTable& data) {
  const ConfigValue* value = find_value(data, "dataset.hf_dataset_or_datasets");
  return value != nullptr && !std::holds_alternative<ForeignValue>(value->data);
}

// Whether some data are texts of the package datasets.
bool needs_tokenizer(const ForeignFindings& findings) {
  const ConfigValue* data = findings.value("data");
  const ConfigValue* stages = findings.value("data_stages");
  const auto* single =
      data == nullptr ? nullptr : std::get_if<ConfigTable>(&data->data);
  const auto* list =
      stages == nullptr ? nullptr : std::get_if<ConfigArray>(&stages->data);
  if (single != nullptr && takes_texts(*single)) {
    return true;
  }
  return list != nullptr &&
         std::ranges::any_of(*list, [](const ConfigValue& stage) {
           const auto* table = std::get_if<ConfigTable>(&stage.data);
           const ConfigValue* held =
               table == nullptr ? nullptr : find_value(*table, "data");
           const auto* inner = held == nullptr
                                   ? nullptr
                                   : std::get_if<ConfigTable>(&held->data);
           return inner != nullptr && takes_texts(*inner);
         });
}

// run_train.py: the data loader of texts asks for its name.
void check_tokenizer(ForeignFindings& findings) {
  const std::string key = "tokenizer.tokenizer_name_or_path";
  const bool is_required =
      is_old_nanotron(findings.config) && !findings.is_set("tokenizer");
  if (word_at(findings.config, key) || is_required ||
      !needs_tokenizer(findings)) {
    return;
  }
  const ConfigValue* value = findings.value(key);
  if (value != nullptr && !std::holds_alternative<ForeignValue>(value->data)) {
    return;  // of another type, which is said
  }
  findings.add({Severity::kError,
                "missing-key",
                key,
                value == nullptr ? Position{findings.config.file, 0, 0}
                                 : value->position,
                "the data are texts (hf_dataset_or_datasets), and there is no "
                "tokenizer for them: run_train.py stops before the first step",
                "tokenizer: {tokenizer_name_or_path: NAME OR FOLDER}",
                Effect::kFailsLater,
                {}});
}

void check_precision(ForeignFindings& findings) {
  if (findings.facts.precision.value_or("") == "fp16") {
    findings.warning("precision-conflict",
                     "model.dtype",
                     "nanotron has no loss scaling: small gradients of float16 "
                     "become 0",
                     "use bfloat16",
                     Effect::kSilentlyDifferent);
  }
}

}  // namespace

void check_nanotron_training(ForeignFindings& findings) {
  check_zero(findings);
  check_styles(findings);
  check_decay(findings);
  check_rates(findings);
  check_checkpoints(findings);
  check_profiler(findings);
  check_stages(findings);
  check_precision(findings);
  check_validation(findings);
  check_tokenizer(findings);
}

}  // namespace triax
