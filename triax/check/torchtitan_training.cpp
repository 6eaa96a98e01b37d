// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/base/saturating.h"
#include "triax/check/torchtitan_rules.h"
#include "triax/config/nearest.h"
#include "triax/foreign/text_cursor.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

void fail(ForeignFindings& findings,
          const std::string& rule,
          const std::string& path,
          const std::string& message,
          const std::string& fix) {
  findings.error(rule, path, message, fix, Effect::kFailsLater);
}

// train.py: global_batch_size % (local_batch_size * batch_degree) == 0. Under
// pp the rule of all systems does not see the local batch.
void check_batch(ForeignFindings& findings) {
  const std::string key = "training.global_batch_size";
  const int64_t global = torchtitan_whole(findings.config, key);
  const int64_t local =
      torchtitan_whole(findings.config, "training.local_batch_size");
  if (global == 0) {
    fail(findings,
         "out-of-range",
         key,
         "0 is no batch",
         "leave it out: local_batch_size times the data-parallel ranks");
    return;
  }
  const auto shards = torchtitan_shards(findings);
  const int64_t replicas = torchtitan_whole(
      findings.config, "parallelism.data_parallel_replicate_degree");
  const bool is_known = shards && *shards > 0 && replicas > 0 && local > 0 &&
                        local < (1 << 20) && replicas < (1 << 20) &&
                        *shards < (1 << 20);
  if (global < 0 || findings.facts.pp.value_or(1) <= 1 || !is_known) {
    return;
  }
  const int64_t unit = local * *shards * replicas;
  if (global % unit != 0) {
    fail(findings,
         "batch-triangle",
         key,
         fmt::format("{} is not a multiple of local_batch_size {} * dp {} = {}",
                     global,
                     local,
                     *shards * replicas,
                     unit),
         fmt::format("use {}", saturating_round_up(global, unit)));
  }
}

// TORCH_DTYPE_MAP takes more than JobConfig names.
void check_half(ForeignFindings& findings) {
  for (const char* key : {"training.dtype",
                          "training.mixed_precision_param",
                          "training.mixed_precision_reduce"}) {
    if (torchtitan_word(findings.config, key) == "float16") {
      findings.error("unknown-value",
                     key,
                     "float16 is none of the choices, and it is taken all the "
                     "same: there is no loss scaling for it",
                     "use \"bfloat16\"",
                     Effect::kSilentlyDifferent);
    }
  }
  const std::string reduce = "training.mixed_precision_reduce";
  if (torchtitan_word(findings.config, reduce) == "bfloat16") {
    findings.note("unknown-value",
                  reduce,
                  "JobConfig names float32 alone, and bfloat16 is taken all "
                  "the same: gradients are summed over the ranks in 8 bits of "
                  "mantissa",
                  "leave it out for sums in float32");
  }
}

// lr_scheduler.py: what the decay ends at.
void check_least_factor(ForeignFindings& findings) {
  const std::string key = "lr_scheduler.min_lr_factor";
  const Real factor = real_at(findings.config, key);
  if (!factor || (*factor >= 0 && *factor <= 1)) {
    return;
  }
  findings.error("out-of-range",
                 key,
                 fmt::format("the rate goes from lr to {:g} times lr{}",
                             *factor,
                             *factor > 1   ? ": it rises where it is to decay"
                             : *factor < 0 ? ", and below 0 each step climbs "
                                             "the loss"
                                           : ""),
                 "use 0 to 1, 0.1 for instance",
                 Effect::kSilentlyDifferent);
}

// lr_scheduler.py: the steps that it adjusts, and what lies behind the last.
void check_schedule(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const int64_t steps = facts.steps.value_or(0);
  const Whole total = whole_at(findings.config, "lr_scheduler.total_steps");
  const int64_t length = total.value_or(steps);
  const int64_t warmup = facts.warmup_steps.value_or(0);
  if (steps < 1 || warmup < 0) {
    return;
  }
  if (warmup > length) {
    // Who tries something in a few steps did not ask for 200 of warm-up.
    const bool is_default = facts.warmup_steps.is_default;
    findings.add({is_default ? Severity::kNote : Severity::kWarning,
                  "warmup-steps",
                  "lr_scheduler.warmup_steps",
                  {},
                  fmt::format("{}{} is more than the {} steps: it is cut to "
                              "them, and the rate never decays",
                              is_default ? "the default " : "",
                              warmup,
                              length),
                  fmt::format("use {} or less", length / 5),
                  Effect::kSilentlyDifferent,
                  {}});
  }
  const Real ratio = real_at(findings.config, "lr_scheduler.decay_ratio");
  const double decay = std::round(ratio.value_or(0) * double(length));
  if (ratio && warmup <= length && double(warmup) + decay > double(length)) {
    findings.warning("warmup-steps",
                     "lr_scheduler.decay_ratio",
                     fmt::format("warm-up {} and decay {} are more than {} "
                                 "steps: the decay is cut to {}",
                                 warmup,
                                 decay,
                                 length,
                                 length - warmup),
                     fmt::format("use {:.3g} or less",
                                 double(length - warmup) / double(length)),
                     Effect::kSilentlyDifferent);
  }
  if (total && *total > 0 && *total < steps && warmup < length &&
      (!ratio || decay >= 1)) {
    const bool is_cosine =
        torchtitan_word(findings.config, "lr_scheduler.decay_type") == "cosine";
    findings.error("warmup-steps",
                   "lr_scheduler.total_steps",
                   fmt::format("the run goes on for {} steps after the "
                               "schedule's {}: the rate {}",
                               steps - *total,
                               *total,
                               is_cosine ? "rises again" : "turns negative"),
                   fmt::format("use {} or more", steps),
                   Effect::kSilentlyDifferent);
  }
}

// optimizer.py: build_optimizers.
void check_step_in_backward(ForeignFindings& findings) {
  const std::string key = "optimizer.early_step_in_backward";
  if (!torchtitan_flag(findings.config, key)) {
    return;
  }
  const RunFacts& facts = findings.facts;
  if (facts.pp.value_or(1) > 1 || facts.ep.value_or(1) > 1) {
    fail(findings,
         "refused-combination",
         key,
         fmt::format("it takes no pp {} or experts' degree {}",
                     facts.pp.value_or(1),
                     facts.ep.value_or(1)),
         "remove it");
    return;
  }
  const bool is_asked = findings.is_set("training.max_norm");
  findings.add({is_asked ? Severity::kWarning : Severity::kNote,
                "no-effect",
                "training.max_norm",
                {},
                "the optimizer steps inside the backward pass, before "
                "gradients could be clipped",
                "remove early_step_in_backward",
                Effect::kSilentlyDifferent,
                {}});
}

// checkpoint.py: what it refuses at once, and what after the last step.
void check_checkpoints(ForeignFindings& findings) {
  const std::string section = "checkpoint.";
  const auto flag = [&](const char* name) {
    return torchtitan_flag(findings.config, section + name);
  };
  if (!flag("enable")) {
    return;
  }
  if (torchtitan_whole(findings.config, section + "keep_latest_k") == 1) {
    fail(findings,
         "out-of-range",
         section + "keep_latest_k",
         "1 is refused: the last checkpoint may still be being written",
         "use 0 (all) or 2");
  }
  if (flag("last_save_in_hf") && !flag("last_save_model_only")) {
    fail(findings,
         "refused-combination",
         section + "last_save_in_hf",
         "the last save stops, after all steps: safetensors hold the model "
         "alone",
         "set last_save_model_only = true");
  }
  if (flag("initial_load_in_hf") && !flag("initial_load_model_only")) {
    fail(findings,
         "refused-combination",
         section + "initial_load_in_hf",
         "safetensors hold the model alone",
         "set initial_load_model_only = true");
  }
  if (flag("initial_load_in_hf_quantized") && !flag("initial_load_in_hf")) {
    fail(findings,
         "refused-combination",
         section + "initial_load_in_hf_quantized",
         "quantized weights are read from safetensors alone",
         "set initial_load_in_hf = true");
  }
}

// Validation.__post_init__, and models without a validator.
void check_validation(ForeignFindings& findings) {
  const Whole steps = whole_at(findings.config, "validation.steps");
  if (steps && *steps < 1 && *steps != -1) {
    findings.error("out-of-range",
                   "validation.steps",
                   fmt::format("{} is refused", *steps),
                   "use -1 (all the data) or more than 0");
  }
  if (!torchtitan_flag(findings.config, "validation.enable")) {
    return;
  }
  const std::string name = torchtitan_word(findings.config, "model.name");
  if (name == "deepseek_v3" || name == "gpt_oss") {
    fail(findings,
         "refused-combination",
         "validation.enable",
         fmt::format("{} has no validator in 0.2.2", name),
         "use false");
  }
  if (torchtitan_whole(findings.config, "validation.steps") == -1) {
    findings.note("validation-hangs",
                  "validation.steps",
                  "-1 reads all the data, and ranks whose shares differ in "
                  "length wait for each other forever",
                  "give a number of steps");
  }
}

// profiling.py.
void check_profiler(ForeignFindings& findings) {
  const std::string section = "profiling.";
  const int64_t every =
      torchtitan_whole(findings.config, section + "profile_freq");
  const int64_t active =
      torchtitan_whole(findings.config, section + "profiler_active");
  const int64_t warmup =
      torchtitan_whole(findings.config, section + "profiler_warmup");
  if (!torchtitan_flag(findings.config, section + "enable_profiling") ||
      every < 1 || active < 0 || warmup < 0 || active > (1 << 30) ||
      warmup > (1 << 30) || every >= active + warmup) {
    return;
  }
  fail(findings,
       "out-of-range",
       section + "profile_freq",
       fmt::format("{} is less than profiler_warmup {} + profiler_active {}",
                   every,
                   warmup,
                   active),
       fmt::format("use {} or more", warmup + active));
}

// text_datasets.py: DATASETS, which a user may have extended.
void check_dataset(ForeignFindings& findings, const std::string& section) {
  const std::string key = section + ".dataset";
  static const std::vector<std::string_view> known = {
      "c4", "c4_test", "c4_validation"};
  const TorchTitanModel* model = torchtitan_model(findings.config);
  const Word given = word_at(findings.config, key);
  const std::string name = lower(given.value_or("c4"));
  const bool brings_its_own =
      !torchtitan_word(findings.config, "experimental.custom_import").empty() ||
      !torchtitan_word(findings.config, "job.custom_config_module").empty();
  if (!given || model == nullptr || brings_its_own ||
      std::ranges::find(known, name) != known.end()) {
    return;
  }
  const std::string near = nearest(name, known);
  // Who says where its files lie has most likely added it.
  const bool has_path = findings.is_set(key + "_path");
  findings.add({!near.empty() ? Severity::kError
                : has_path    ? Severity::kNote
                              : Severity::kWarning,
                "unknown-value",
                key,
                {},
                fmt::format("{} is none of {}, and TorchTitan stops unless its "
                            "text_datasets.py was given it",
                            in_quotes(*given),
                            fmt::join(known, ", ")),
                near.empty()
                    ? "use one of them (dataset_path says where its files "
                      "are), or add yours to DATASETS"
                    : fmt::format("did you mean \"{}\"?", near),
                Effect::kFailsLater,
                {}});
}

// parallelize.py and loss.py look for "model" and "loss".
void check_compile(ForeignFindings& findings) {
  static const std::vector<std::string_view> known = {"model", "loss"};
  const std::string key = "compile.components";
  const ConfigValue* value = findings.value(key);
  const auto* items =
      value == nullptr ? nullptr : std::get_if<ConfigArray>(&value->data);
  if (items == nullptr || !torchtitan_flag(findings.config, "compile.enable")) {
    return;
  }
  for (const ConfigValue& item : *items) {
    const auto* word = std::get_if<std::string>(&item.data);
    if (word == nullptr || std::ranges::find(known, *word) != known.end()) {
      continue;
    }
    const std::string near = nearest(*word, known);
    findings.add(
        {Severity::kWarning,
         "unknown-value",
         key,
         item.position,
         fmt::format("{} is neither \"model\" nor \"loss\", and "
                     "nothing is compiled for it",
                     in_quotes(*word)),
         near.empty() ? "remove it" : fmt::format("did you mean \"{}\"?", near),
         Effect::kIgnored,
         {}});
  }
}

void check_other_programs(ForeignFindings& findings) {
  if (torchtitan_flag(findings.config, "fault_tolerance.enable")) {
    findings.note("no-effect",
                  "fault_tolerance.enable",
                  "only torchtitan.experiments.ft.train reads it; "
                  "torchtitan.train runs without",
                  "start that program",
                  Effect::kIgnored);
  }
  if (torchtitan_flag(findings.config, "memory_estimation.enable")) {
    findings.note("no-effect",
                  "memory_estimation.enable",
                  "only the estimation script reads it; training does not",
                  "start that script",
                  Effect::kIgnored);
  }
}

}  // namespace

void check_torchtitan_training(ForeignFindings& findings) {
  check_batch(findings);
  check_half(findings);
  check_least_factor(findings);
  check_schedule(findings);
  check_step_in_backward(findings);
  check_checkpoints(findings);
  check_validation(findings);
  check_profiler(findings);
  check_dataset(findings, "training");
  if (torchtitan_flag(findings.config, "validation.enable")) {
    check_dataset(findings, "validation");
  }
  check_compile(findings);
  check_other_programs(findings);
}

}  // namespace triax
