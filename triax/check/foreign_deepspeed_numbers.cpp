// SPDX-License-Identifier: Apache-2.0
// Numbers that go on to the optimizer's and the schedule's class as they stand.
#include <fmt/format.h>

#include <optional>

#include "triax/check/foreign_deepspeed_rules.h"

namespace triax {
namespace {

std::optional<double> plain_number(const ConfigValue& value) {
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return static_cast<double>(*whole);
  }
  const auto* real = std::get_if<double>(&value.data);
  return real == nullptr ? std::nullopt : std::optional<double>(*real);
}

bool is_text(const ConfigValue& value) {
  return std::holds_alternative<std::string>(value.data);
}

// transformers' Trainer fills it in.
bool is_auto(const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  return text != nullptr && *text == "auto";
}

void text_for_number(ForeignFindings& findings,
                     const std::string& path,
                     const ConfigValue& value) {
  findings.error(
      "wrong-type",
      path,
      fmt::format("{} is a text, and it goes on as it stands to a class that "
                  "calculates with it",
                  value_text(value)),
      "write it without quotes",
      Effect::kFailsLater);
}

// torch's classes stop at it; DeepSpeed's own do not look.
void out_of_range(ForeignFindings& findings,
                  const std::string& path,
                  const ParameterRow& row,
                  const std::string& message,
                  const std::string& fix) {
  const bool is_torch = row.class_name.starts_with("torch.optim.");
  findings.error("out-of-range",
                 path,
                 is_torch
                     ? message + fmt::format("; {} stops at it", row.class_name)
                     : message + fmt::format("; {} trains with it and "
                                             "diverges",
                                             row.class_name),
                 fix,
                 is_torch ? Effect::kFailsLater : Effect::kSilentlyDifferent);
}

void check_number(ForeignFindings& findings,
                  const ParameterRow& row,
                  const std::string& path) {
  const ConfigValue* value = findings.value(path);
  if (value == nullptr || is_auto(*value)) {
    return;
  }
  const std::optional<double> number = plain_number(*value);
  if (is_text(*value)) {
    text_for_number(findings, path, *value);
  } else if (number && !(*number >= 0.0)) {
    out_of_range(findings,
                 path,
                 row,
                 fmt::format("{} is below 0", value_text(*value)),
                 "use 0 or more");
  }
}

void check_betas(ForeignFindings& findings, const ParameterRow& row) {
  const std::string path = "optimizer.params.betas";
  const ConfigValue* value = findings.value(path);
  if (value == nullptr || is_auto(*value)) {
    return;
  }
  const auto* items = std::get_if<ConfigArray>(&value->data);
  const bool is_pair = items != nullptr && items->size() == 2 &&
                       plain_number((*items)[0]) && plain_number((*items)[1]);
  if (!is_pair) {
    findings.error("wrong-type",
                   path,
                   fmt::format("{} takes two numbers", row.class_name),
                   "write it as [0.9, 0.999]",
                   Effect::kFailsLater);
    return;
  }
  for (const ConfigValue& item : *items) {
    const double beta = *plain_number(item);
    if (!(beta >= 0.0 && beta < 1.0)) {
      out_of_range(findings,
                   path,
                   row,
                   fmt::format("{} is not in 0 to below 1", value_text(item)),
                   "each is at least 0 and below 1");
      return;
    }
  }
}

bool takes(const ParameterRow& row, std::string_view name) {
  for (const std::string_view parameter : split_words(row.parameters)) {
    if (parameter == name) {
      return true;
    }
  }
  return false;
}

}  // namespace

void check_optimizer_numbers(ForeignFindings& findings,
                             const ParameterRow& row) {
  // Adafactor's eps are two, and its decay is another number.
  const bool has_plain_eps = row.name != "Adafactor";
  for (const std::string name : {"lr", "eps", "weight_decay"}) {
    if (takes(row, name) && (name != "eps" || has_plain_eps)) {
      check_number(findings, row, "optimizer.params." + name);
    }
  }
  if (takes(row, "betas")) {
    check_betas(findings, row);
  }
}

void check_schedule_numbers(ForeignFindings& findings,
                            const ParameterRow& row) {
  if (!row.name.starts_with("Warmup")) {
    return;
  }
  const std::string params = "scheduler.params.";
  for (const char* name : {"total_num_steps",
                           "warmup_min_lr",
                           "warmup_max_lr",
                           "warmup_min_ratio",
                           "cos_min_ratio"}) {
    const ConfigValue* value = findings.value(params + name);
    if (value != nullptr && is_text(*value) && !is_auto(*value) &&
        takes(row, name)) {
      text_for_number(findings, params + name, *value);
    }
  }
  const std::string path = params + "warmup_num_steps";
  const ConfigValue* value = findings.value(path);
  if (value == nullptr || is_auto(*value)) {
    return;
  }
  if (is_text(*value) || std::holds_alternative<double>(value->data)) {
    findings.error("wrong-type",
                   path,
                   fmt::format("{} is no whole number, and {} stops at it",
                               value_text(*value),
                               row.name),
                   "write a whole number, without quotes and point",
                   Effect::kFailsLater);
  }
}

void check_scale_power(ForeignFindings& findings) {
  constexpr double kMost = 1023;  // of a double's exponent
  const std::string path = "fp16.initial_scale_power";
  const ConfigValue* value = findings.value(path);
  const ConfigValue* enabled = findings.value("fp16.enabled");
  const std::optional<double> power =
      value == nullptr ? std::nullopt : plain_number(*value);
  if (enabled != nullptr && deepspeed_truth(*enabled) && power &&
      *power > kMost) {
    findings.error("out-of-range",
                   path,
                   fmt::format("2 to the {} is no number, and the loss scale "
                               "overflows as it is made",
                               value_text(*value)),
                   "its default is 16",
                   Effect::kFailsLater);
  }
}

}  // namespace triax
