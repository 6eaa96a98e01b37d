// SPDX-License-Identifier: Apache-2.0
#include "triax/check/foreign_deepspeed_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "triax/base/trimmed.h"
#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_findings.h"
#include "triax/foreign/hjson.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

// A number in a text, with Python's underscores between digits.
std::optional<double> number_in(std::string_view text) {
  std::string plain;
  for (const char byte : trimmed(text, " ")) {
    if (byte != '_') {
      plain += byte;
    } else if (plain.empty() || plain.back() == '_') {
      return std::nullopt;
    }
  }
  double number = 0.0;
  const char* const end = plain.data() + plain.size();
  const auto result = std::from_chars(plain.data(), end, number);
  return result.ec == std::errc() && result.ptr == end && !plain.empty()
             ? std::optional<double>(number)
             : std::nullopt;
}

bool is_whole_text(std::string_view text) {
  const std::optional<double> number = number_in(text);
  return number && std::floor(*number) == *number &&
         text.find_first_of("eEnN") == std::string_view::npos;
}

std::optional<double> number_of(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return *flag ? 1.0 : 0.0;
  }
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return static_cast<double>(*whole);
  }
  if (const auto* real = std::get_if<double>(&value.data)) {
    return *real;
  }
  const auto* text = std::get_if<std::string>(&value.data);
  return text == nullptr ? std::nullopt : number_in(*text);
}

bool is_flag(const ConfigValue& value) {
  static constexpr std::string_view kWords[] = {
      "0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"};
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    const std::string word = lower(*text);
    return std::find(std::begin(kWords), std::end(kWords), word) !=
           std::end(kWords);
  }
  const std::optional<double> number = number_of(value);
  return number && (*number == 0.0 || *number == 1.0);
}

bool is_whole(const ConfigValue& value) {
  if (std::holds_alternative<int64_t>(value.data)) {
    return true;
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return is_whole_text(*text);
  }
  const std::optional<double> number = number_of(value);
  return number && std::floor(*number) == *number && std::abs(*number) < 0x1p63;
}

// Python counts on where 64 bits end.
bool is_python_whole(const ConfigValue& value) {
  const auto* real = std::get_if<double>(&value.data);
  return is_whole(value) || (real != nullptr && std::abs(*real) >= 0x1p63);
}

// NaN and Infinity without quotes are texts to the loader, and go on to the
// end of their line.
bool is_no_number(std::string_view text) {
  while (!text.empty() && (text.back() == ',' || text.back() == ' ' ||
                           text.back() == '}' || text.back() == ']')) {
    text.remove_suffix(1);
  }
  text.remove_prefix(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  const std::string word = lower(text);
  return word == "nan" || word == "inf" || word == "infinity";
}

std::string not_a(const ConfigValue& value, const char* what) {
  return fmt::format(
      "{} is {}, and it takes {}", value_text(value), kind_of(value), what);
}

std::string bound(const KeyRow& row, const ConfigValue& value) {
  const ConfigValue number{number_of(value).value_or(0.0), value.position};
  return bound_misfit(row, number);
}

std::string choice_misfit(const KeyRow& row, const std::string& text) {
  const std::vector<std::string_view> choices = split_words(row.choices);
  return std::find(choices.begin(), choices.end(), text) != choices.end()
             ? ""
             : fmt::format("{} is none of {}",
                           in_quotes(text),
                           fmt::join(choices, ", "));
}

bool is_between_excluded(std::string_view key) {
  return key.ends_with(".topk_ratio");
}

// The sections that pydantic classes read: see tests/foreign.
bool is_model(std::string_view key) {
  static constexpr std::string_view kSections[] = {"zero_optimization",
                                                   "fp16",
                                                   "bf16",
                                                   "bfloat16",
                                                   "comms_logger",
                                                   "compile",
                                                   "hybrid_engine",
                                                   "weight_quantization",
                                                   "tensor_parallel",
                                                   "wandb",
                                                   "timers.throughput",
                                                   "tensorboard",
                                                   "comet",
                                                   "csv_monitor"};
  return std::any_of(
      std::begin(kSections), std::end(kSections), [key](std::string_view name) {
        return key == name ||
               (key.starts_with(name) && key[name.size()] == '.');
      });
}

// fp16 looks at three numbers before pydantic does.
std::string loss_scale_misfit(const KeyRow& row, const ConfigValue& value) {
  if (std::holds_alternative<bool>(value.data) || !number_of(value)) {
    return not_a(value, "a number");
  }
  if (row.key == "fp16.loss_scale") {
    return bound(row, value);
  }
  const auto* text = std::get_if<std::string>(&value.data);
  const bool has_point =
      text != nullptr && text->find('.') != std::string::npos;
  return is_whole(value) && !has_point ? "" : not_a(value, "a whole number");
}

std::string list_misfit(const KeyRow& row, const ConfigValue& value) {
  const auto* items = std::get_if<ConfigArray>(&value.data);
  const bool is_name =
      row.key.find(".leaf_module.") != std::string_view::npos &&
      std::holds_alternative<std::string>(value.data);
  if (items == nullptr) {
    return is_name ? "" : not_a(value, "a list");
  }
  for (const ConfigValue& item : *items) {
    const auto* text = std::get_if<std::string>(&item.data);
    if (!row.choices.empty()) {
      const std::string misfit =
          text == nullptr ? not_a(item, "texts") : choice_misfit(row, *text);
      if (!misfit.empty()) {
        return misfit;
      }
    } else if (row.key.find(".leaf_module.") != std::string_view::npos &&
               text == nullptr) {
      return not_a(item, "texts");
    }
  }
  return "";
}

std::string interval_misfit(const KeyRow& row, const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return in_quotes(*text) + " is no whole number, nor auto";
  }
  if (!is_whole(value)) {
    return not_a(value, "a whole number or \"auto\"");
  }
  return row.key.ends_with("update_interval") && *number_of(value) < 1.0
             ? value_text(value) + " must be at least 1"
             : "";
}

// As pydantic reads a field of this type from JSON without strict mode.
std::string model_misfit(const KeyRow& row, const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && *text == "auto" &&
      row.key.find('.') != std::string_view::npos) {
    return "";
  }
  if (is_null(value)) {
    return misfit_text(row, value);
  }
  if (row.key == "fp16.loss_scale" || row.key == "fp16.loss_scale_window" ||
      row.key == "fp16.min_loss_scale") {
    return loss_scale_misfit(row, value);
  }
  if (row.key.find(".zenflow.") != std::string_view::npos &&
      row.key.ends_with("_interval")) {
    return interval_misfit(row, value);
  }
  switch (row.type) {
    case KeyType::kFlag:
      return is_flag(value) ? "" : not_a(value, "true or false");
    case KeyType::kWhole:
      return is_whole(value) ? bound(row, value)
                             : not_a(value, "a whole number");
    case KeyType::kNumber:
      if (!number_of(value)) {
        return not_a(value, "a number");
      }
      if (is_between_excluded(row.key) &&
          (*number_of(value) <= 0.0 || *number_of(value) >= 1.0)) {
        return value_text(value) + " must be above 0 and below 1";
      }
      return bound(row, value);
    case KeyType::kText:
      return text == nullptr       ? not_a(value, "a text")
             : row.choices.empty() ? ""
                                   : choice_misfit(row, *text);
    case KeyType::kList:
      return list_misfit(row, value);
    default:
      return row.type == KeyType::kAny && !row.takes_null
                 ? ""
                 : misfit_text(row, value);
  }
}

// Keys whose text DeepSpeed compares without regard to case.
bool ignores_case(std::string_view key) {
  return key.ends_with("communication_data_type") ||
         key == "gradient_allreduce_op" || key == "checkpoint.tag_validation" ||
         key.starts_with("checkpoint.writer.");
}

std::string case_free_misfit(const KeyRow& row, const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text == nullptr) {
    return misfit_text(row, value);
  }
  for (const std::string_view choice : split_words(row.choices)) {
    if (lower(choice) == lower(*text)) {
      return "";
    }
  }
  return choice_misfit(row, *text);
}

// Python's | between it and a flag.
std::string bit_misfit(const ConfigValue& value) {
  return std::holds_alternative<bool>(value.data) ||
                 std::holds_alternative<int64_t>(value.data)
             ? ""
             : not_a(value, "true or false");
}

bool is_batch_key(std::string_view key) {
  return key == "train_batch_size" || key == "train_micro_batch_size_per_gpu" ||
         key == "gradient_accumulation_steps";
}

std::string batch_misfit(const KeyRow& row, const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && *text == "auto") {
    return "";  // check_auto() looks at it
  }
  if (std::holds_alternative<std::string>(value.data) ||
      !is_python_whole(value)) {
    return is_null(value) ? "" : not_a(value, "a whole number");
  }
  return bound(row, value);
}

std::string names_misfit(const ConfigValue& value) {
  if (std::holds_alternative<std::string>(value.data)) {
    return "";
  }
  const auto* items = std::get_if<ConfigArray>(&value.data);
  if (items == nullptr) {
    return not_a(value, "a list of texts");
  }
  for (const ConfigValue& item : *items) {
    if (!std::holds_alternative<std::string>(item.data)) {
      return not_a(item, "texts");
    }
  }
  return "";
}

std::string keep_misfit(const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.data);
  return text == nullptr || *text == "auto"
             ? text == nullptr ? names_misfit(value) : ""
             : in_quotes(*text) + " is no list of name patterns, nor \"auto\"";
}

// Python counts with flags and takes numbers for flags; 5e8 is whole.
bool is_python_kin(const KeyRow& row, const ConfigValue& value) {
  if (std::holds_alternative<std::string>(value.data)) {
    return false;
  }
  return (row.type == KeyType::kWhole && is_python_whole(value)) ||
         (row.type == KeyType::kNumber && number_of(value)) ||
         (row.type == KeyType::kFlag && is_flag(value));
}

std::string dict_misfit(const KeyRow& row, const ConfigValue& value) {
  if (is_batch_key(row.key)) {
    return batch_misfit(row, value);
  }
  if (row.key == "wall_clock_breakdown" ||
      row.key == "flops_profiler.enabled") {
    return bit_misfit(value);
  }
  if (row.key == "data_types.keep_in_fp32_modules") {
    return keep_misfit(value);
  }
  if (row.key == "torch_autocast.lower_precision_safe_modules") {
    return names_misfit(value);
  }
  if (row.key == "expert_parallel.load_balance_coeff") {
    return is_null(value) ? "" : "only null is supported";
  }
  if (row.key == "optimizer.type") {
    return std::holds_alternative<std::string>(value.data) || is_null(value)
               ? ""
               : not_a(value, "a text");
  }
  if (row.key == "vocabulary_size") {
    return std::holds_alternative<std::string>(value.data)
               ? not_a(value, "a whole number")
               : "";
  }
  if (row.key == "checkpoint.parallel_write.pipeline_stage") {
    return !std::holds_alternative<std::string>(value.data) && is_flag(value)
               ? ""
               : not_a(value, "true or false");
  }
  if (ignores_case(row.key)) {
    return case_free_misfit(row, value);
  }
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && *text == "auto" && row.is_unchecked) {
    return "";  // check_auto() looks at it
  }
  if (row.is_unchecked && is_python_kin(row, value)) {
    return std::holds_alternative<bool>(value.data) ? "" : bound(row, value);
  }
  return misfit_text(row, value);
}

}  // namespace

std::string deepspeed_misfit(const KeyRow& row, const ConfigValue& value) {
  std::string misfit = is_model(row.key) && row.key != "zero_optimization"
                           ? model_misfit(row, value)
                           : dict_misfit(row, value);
  const bool is_count =
      row.type == KeyType::kWhole || row.type == KeyType::kNumber;
  const auto* text = std::get_if<std::string>(&value.data);
  if (!misfit.empty() && is_count && text != nullptr && is_no_number(*text)) {
    misfit = in_quotes(*text) +
             " is a text to the loader, which knows neither NaN nor Infinity";
  }
  return misfit;
}

bool deepspeed_flag(const ForeignFindings& findings,
                    const std::string& path,
                    bool or_else) {
  const ConfigValue* value = findings.value(path);
  if (value == nullptr || !is_flag(*value)) {
    return or_else;
  }
  if (const auto* text = std::get_if<std::string>(&value->data)) {
    const std::string word = lower(*text);
    return word == "1" || word == "on" || word == "t" || word == "true" ||
           word == "y" || word == "yes";
  }
  return *number_of(*value) == 1.0;
}

std::optional<double> deepspeed_number(const ForeignFindings& findings,
                                       const std::string& path) {
  const ConfigValue* value = findings.value(path);
  return value == nullptr ? std::nullopt : number_of(*value);
}

bool deepspeed_truth(const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return !text->empty();
  }
  if (const auto* items = std::get_if<ConfigArray>(&value.data)) {
    return !items->empty();
  }
  if (const auto* table = std::get_if<ConfigTable>(&value.data)) {
    return !table->empty();
  }
  return number_of(value).value_or(0.0) != 0.0;
}

std::optional<int64_t> deepspeed_stage(const ForeignFindings& findings) {
  const ConfigValue* zero = findings.value("zero_optimization");
  if (zero == nullptr) {
    return 0;
  }
  if (const auto* flag = std::get_if<bool>(&zero->data)) {
    return *flag ? 1 : 0;
  }
  const ConfigValue* stage = findings.value("zero_optimization.stage");
  if (stage == nullptr) {
    return 0;
  }
  const std::optional<double> number = number_of(*stage);
  return number && (*number == 0.0 || *number == 1.0 || *number == 2.0 ||
                    *number == 3.0)
             ? std::optional<int64_t>(static_cast<int64_t>(*number))
             : std::nullopt;
}

}  // namespace triax
