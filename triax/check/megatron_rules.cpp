// SPDX-License-Identifier: Apache-2.0
#include "triax/check/megatron_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/check/foreign_bounds.h"
#include "triax/config/problem.h"

namespace triax {
namespace {

using Number = std::optional<int64_t>;
using Args = MegatronArguments;

void run_demands(ForeignFindings& findings,
                 const Args& args,
                 std::span<const MegatronDemand> demands) {
  for (const MegatronDemand& demand : demands) {
    if (demand.is_broken(args)) {
      findings.add({demand.severity,
                    demand.rule,
                    demand.key,
                    {},
                    demand.message,
                    demand.fix,
                    demand.effect,
                    {}});
    }
  }
}

// What the script leaves open, said once.
void name_unknown_values(ForeignFindings& findings, const Args& args) {
  std::vector<std::string> names;
  for (const ConfigEntry& entry : findings.config.table) {
    const auto* unknown = std::get_if<ForeignValue>(&entry.value.data);
    if (unknown != nullptr && !is_absurd_number(entry.value) &&
        names.size() < 8) {
      names.push_back(fmt::format("--{} ({})", entry.key, unknown->kind));
    }
  }
  const auto is_argument = [](const ConfigEntry& entry) {
    return entry.key != "launch" && entry.key != "environment";
  };
  if (!std::any_of(findings.config.table.begin(),
                   findings.config.table.end(),
                   is_argument)) {
    findings.not_judged(
        "anything: no command of this script starts Megatron-LM with arguments "
        "that stand in it");
  }
  if (!names.empty()) {
    findings.not_judged(fmt::format("values that the script does not say: {}",
                                    fmt::join(names, ", ")));
  }
  if (!args.is_closed()) {
    findings.not_judged(
        fmt::format("arguments that are missing here: {}", args.why_open()));
  }
}

// Degrees that a script holds as the defaults of what its caller may set: what
// does not divide by another is then somebody else's mistake.
void name_defaults(ForeignFindings& findings) {
  const std::string defaults =
      word_at(findings.config, "launch.defaults").value_or("");
  std::vector<std::string> names;
  for (const std::string_view key : split_words(defaults)) {
    if (key.ends_with("-parallel-size")) {
      names.push_back(fmt::format(
          "--{} {}", key, value_text(*findings.value(std::string(key)))));
    }
  }
  if (!names.empty()) {
    findings.not_judged(fmt::format(
        "other degrees than the defaults that the script takes without "
        "arguments: {}",
        fmt::join(names, ", ")));
  }
}

}  // namespace

void check_megatron_schedule(ForeignFindings& findings, const Args& args) {
  const auto check = [&](const char* warmup_key,
                         const char* decay_key,
                         const char* length_key) {
    const Number warmup = args.whole(warmup_key);
    const Number decay = args.is_set(decay_key)   ? args.whole(decay_key)
                         : args.is_off(decay_key) ? args.whole(length_key)
                                                  : std::nullopt;
    if (args.is_set(length_key) && args.is_off("skip-train") && warmup &&
        decay && *decay > 0 && *warmup >= *decay) {
      findings.error(
          "warmup-steps",
          warmup_key,
          fmt::format("a warm-up of {} is not shorter than the {} until the "
                      "learning rate ends (--{})",
                      *warmup,
                      *decay,
                      args.is_set(decay_key) ? decay_key : length_key),
          fmt::format("use less than {}", *decay));
    }
  };
  if (!(args.is_set("train-iters") && args.is_set("train-samples"))) {
    check("lr-warmup-iters", "lr-decay-iters", "train-iters");
    check("lr-warmup-samples", "lr-decay-samples", "train-samples");
  }
  const std::optional<double> fraction = args.number("lr-warmup-fraction");
  if (fraction && (*fraction < 0 || *fraction >= 1)) {
    findings.error("warmup-steps",
                   "lr-warmup-fraction",
                   fmt::format("{:g} of the run is no warm-up", *fraction),
                   "use a fraction below 1, 0.01 for instance");
  }
}

void check_megatron_environment(ForeignFindings& findings, const Args& args) {
  const ConfigValue* value =
      findings.value("environment.CUDA_DEVICE_MAX_CONNECTIONS");
  const auto* text =
      value == nullptr ? nullptr : std::get_if<std::string>(&value->data);
  const bool shards =
      args.is_on("use-torch-fsdp2") || args.is_on("use-megatron-fsdp");
  const Position place =
      value == nullptr ? Position{findings.config.file, 0, 0} : value->position;
  const auto add = [&](Severity severity,
                       const std::string& message,
                       const std::string& fix) {
    findings.add({severity,
                  "launch-environment",
                  "",
                  place,
                  message,
                  fix,
                  Effect::kRefused,
                  {}});
  };
  if (shards && text != nullptr && *text == "1") {
    add(Severity::kError,
        "CUDA_DEVICE_MAX_CONNECTIONS is 1, and FSDP wants it larger or unset",
        "remove it");
    return;
  }
  const bool splits =
      args.whole("tensor-model-parallel-size").value_or(1) > 1 ||
      args.whole("context-parallel-size").value_or(1) > 1;
  const bool starts_here = findings.is_set("launch.script");
  if (!splits || shards || !starts_here || !args.is_off("use-torch-fsdp2") ||
      !args.is_off("use-megatron-fsdp") ||
      args.is_on("overlap-moe-expert-parallel-comm")) {
    return;
  }
  if (text != nullptr && *text != "1") {
    add(Severity::kWarning,
        fmt::format("CUDA_DEVICE_MAX_CONNECTIONS is {}, and with tp or cp "
                    "Megatron-LM stops unless it is 1 (before Blackwell)",
                    in_quotes(*text)),
        "export CUDA_DEVICE_MAX_CONNECTIONS=1");
  } else if (value == nullptr) {
    add(Severity::kNote,
        "the script does not set CUDA_DEVICE_MAX_CONNECTIONS, and with tp or "
        "cp Megatron-LM stops unless it is 1 (before Blackwell)",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1");
  }
}

void check_megatron(ForeignFindings& findings) {
  const Args args(findings.config);
  check_megatron_keys(findings, args);
  name_unknown_values(findings, args);
  name_defaults(findings);
  if (args.is_deepspeed()) {
    findings.not_judged(
        "Megatron-DeepSpeed's own assertions: its checks are others than "
        "Megatron-LM's");
    // It has the same schedule, with the same assertion.
    check_megatron_schedule(findings, args);
    return;
  }
  check_megatron_required(findings, args);
  run_demands(findings, args, megatron_parallel_demands());
  run_demands(findings, args, megatron_model_demands());
  run_demands(findings, args, megatron_run_demands());
  run_demands(findings, args, megatron_silent_changes());
  check_megatron_pipeline(findings, args);
  check_megatron_sizes(findings, args);
  check_megatron_ranges(findings, args);
  check_megatron_schedule(findings, args);
  check_megatron_environment(findings, args);
}

}  // namespace triax
