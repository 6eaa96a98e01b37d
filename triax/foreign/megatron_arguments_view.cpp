// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_arguments_view.h"

#include <charconv>

#include "triax/foreign/megatron_arithmetic.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number =
      error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_number ? std::optional<double>(number) : std::nullopt;
}

std::string_view default_of(std::string_view key) {
  const MegatronRow* row = find_megatron_row(key);
  return row == nullptr ? std::string_view() : row->row.default_value;
}

std::string after_last_slash(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

MegatronArguments::MegatronArguments(const ForeignConfig& config)
    : config_(config) {
  for (const ConfigEntry& entry : config.table) {
    values_[entry.key] = &entry.value;
    const MegatronForkRow* fork = find_megatron_fork_row(entry.key);
    is_deepspeed_ = is_deepspeed_ ||
                    (fork != nullptr && fork->fork == MegatronFork::kDeepSpeed);
  }
  if (const ConfigValue* script = find_value(config.table, "launch.script")) {
    if (const auto* name = std::get_if<std::string>(&script->data)) {
      script_ = after_last_slash(*name);
    }
  }
  is_command_line_ =
      script_.empty() && find_value(config.table, "launch.words") != nullptr;
  if (const ConfigValue* open = find_value(config.table, "launch.open")) {
    why_open_ = value_text(*open) + " may hold more arguments";
  } else if (is_set("yaml-cfg")) {
    why_open_ = "--yaml-cfg names a file that is not read";
  } else if (is_set("use-checkpoint-args") ||
             is_set("use-mp-args-from-checkpoint-args")) {
    why_open_ = "--use-checkpoint-args takes them from a checkpoint";
  }
  is_closed_ = why_open_.empty();
}

const ConfigValue* MegatronArguments::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : found->second;
}

bool MegatronArguments::is_on(std::string_view key) const {
  const ConfigValue* value = find(key);
  const auto* flag =
      value == nullptr ? nullptr : std::get_if<bool>(&value->data);
  return flag != nullptr && *flag;
}

std::optional<int64_t> MegatronArguments::whole(std::string_view key) const {
  const ConfigValue* value = find(key);
  if (value == nullptr) {
    return is_closed_ ? whole_number(default_of(key)) : std::nullopt;
  }
  const auto* number = std::get_if<int64_t>(&value->data);
  return number == nullptr ? std::nullopt : std::optional<int64_t>(*number);
}

std::optional<double> MegatronArguments::number(std::string_view key) const {
  const ConfigValue* value = find(key);
  if (value == nullptr) {
    return is_closed_ ? parse_number(default_of(key)) : std::nullopt;
  }
  if (const auto* whole = std::get_if<int64_t>(&value->data)) {
    return static_cast<double>(*whole);
  }
  const auto* number = std::get_if<double>(&value->data);
  return number == nullptr ? std::nullopt : std::optional<double>(*number);
}

std::optional<std::string> MegatronArguments::text(std::string_view key) const {
  const ConfigValue* value = find(key);
  if (value == nullptr) {
    const std::string_view by_default = default_of(key);
    return is_closed_ && !by_default.empty()
               ? std::optional<std::string>(by_default)
               : std::nullopt;
  }
  const auto* held = std::get_if<std::string>(&value->data);
  return held == nullptr ? std::nullopt : std::optional<std::string>(*held);
}

std::optional<std::vector<std::string>> MegatronArguments::items(
    std::string_view key) const {
  const ConfigValue* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  std::vector<std::string> result;
  if (const auto* text = std::get_if<std::string>(&value->data)) {
    result.push_back(*text);
    return result;
  }
  const auto* list = std::get_if<ConfigArray>(&value->data);
  if (list == nullptr) {
    return std::nullopt;
  }
  for (const ConfigValue& item : *list) {
    const auto* held = std::get_if<std::string>(&item.data);
    const auto* whole = std::get_if<int64_t>(&item.data);
    if (held == nullptr && whole == nullptr) {
      return std::nullopt;
    }
    result.push_back(held != nullptr ? *held : std::to_string(*whole));
  }
  return result;
}

}  // namespace triax
