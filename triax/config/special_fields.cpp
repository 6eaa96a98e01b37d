// SPDX-License-Identifier: Apache-2.0
#include "triax/config/special_fields.h"

#include <cmath>
#include <optional>

#include "triax/config/problem.h"
#include "triax/config/toml_text.h"

namespace triax {
namespace {

std::optional<double> as_number(const ConfigValue& value) {
  if (const auto* real = std::get_if<double>(&value.data)) {
    return *real;
  }
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return static_cast<double>(*whole);
  }
  return std::nullopt;
}

std::string read_validation(const ConfigValue& value, RunConfig& config) {
  if (const auto* path = std::get_if<std::string>(&value.data)) {
    if (path->empty()) {
      return "an empty path";
    }
    config.data.validation = 0.0;
    config.data.validation_path = *path;
    return "";
  }
  const std::optional<double> share = as_number(value);
  if (!share) {
    return kind_of(value) + ", where a share of the tokens or a path belongs";
  }
  if (!(*share >= 0.0 && *share < 1.0)) {
    return toml_text(*share) + " is no share: at least 0 and below 1";
  }
  config.data.validation = *share;
  config.data.validation_path.clear();
  return "";
}

std::string print_validation(const RunConfig& config) {
  const std::string& path = config.data.validation_path;
  return path.empty() ? toml_text(config.data.validation)
                      : toml_text(std::string_view(path));
}

std::string read_stages(const ConfigValue& value, RunConfig& config) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (text != nullptr && *text == "auto") {
    config.parallel.stages.clear();
    return "";
  }
  const auto* list = std::get_if<ConfigArray>(&value.data);
  if (list == nullptr || list->empty()) {
    const std::string found = text != nullptr   ? in_quotes(*text)
                              : list != nullptr ? "an empty list"
                                                : kind_of(value);
    return found + ", where \"auto\" or a list of layer counts belongs";
  }
  std::vector<int64_t> stages;
  for (const ConfigValue& item : *list) {
    const auto* layers = std::get_if<int64_t>(&item.data);
    if (layers == nullptr || *layers < 1 || *layers > 10000) {
      return "a stage has a whole number of layers, from 1 to 10000";
    }
    stages.push_back(*layers);
  }
  config.parallel.stages = stages;
  return "";
}

std::string print_stages(const RunConfig& config) {
  return config.parallel.stages.empty() ? "\"auto\""
                                        : toml_text(config.parallel.stages);
}

std::string read_group_entry(const ConfigEntry& entry, OptimizerGroup& group) {
  if (entry.key == "pattern") {
    const auto* pattern = std::get_if<std::string>(&entry.value.data);
    if (pattern == nullptr || pattern->empty()) {
      return "pattern is a text, for instance \"*.bias\"";
    }
    group.pattern = *pattern;
    return "";
  }
  if (entry.key != "lr" && entry.key != "weight_decay") {
    return "a group has pattern, lr and weight_decay, no " +
           in_quotes(entry.key);
  }
  const std::optional<double> number = as_number(entry.value);
  if (!number || !(*number >= 0.0) || !std::isfinite(*number)) {
    return entry.key + " is a number, at least 0";
  }
  (entry.key == "lr" ? group.lr : group.weight_decay) = *number;
  return "";
}

std::string read_group(const ConfigTable& table, OptimizerGroup& group) {
  for (const ConfigEntry& entry : table) {
    if (std::string wrong = read_group_entry(entry, group); !wrong.empty()) {
      return wrong;
    }
  }
  if (group.pattern.empty()) {
    return "a group needs a pattern, for instance \"*.bias\"";
  }
  if (!group.lr && !group.weight_decay) {
    return "the group " + in_quotes(group.pattern) +
           " sets neither lr nor weight_decay";
  }
  return "";
}

std::string read_groups(const ConfigValue& value, RunConfig& config) {
  const auto* list = std::get_if<ConfigArray>(&value.data);
  if (list == nullptr) {
    return kind_of(value) + ", where [[optimizer.group]] tables belong";
  }
  std::vector<OptimizerGroup> groups;
  for (const ConfigValue& item : *list) {
    const auto* table = std::get_if<ConfigTable>(&item.data);
    if (table == nullptr) {
      return kind_of(item) + ", where a table with a pattern belongs";
    }
    std::string wrong = read_group(*table, groups.emplace_back());
    if (!wrong.empty()) {
      return wrong;
    }
  }
  config.optimizer.group = groups;
  return "";
}

std::string print_groups(const RunConfig& config) {
  std::string text = "[";
  for (const OptimizerGroup& group : config.optimizer.group) {
    text += text.size() > 1 ? ", { pattern = " : "{ pattern = ";
    text += toml_text(std::string_view(group.pattern));
    if (group.lr) {
      text += ", lr = " + toml_text(*group.lr);
    }
    if (group.weight_decay) {
      text += ", weight_decay = " + toml_text(*group.weight_decay);
    }
    text += " }";
  }
  return text + "]";
}

}  // namespace

SpecialMember validation_member() {
  return {"share or path", read_validation, print_validation};
}

SpecialMember stages_member() {
  return {"\"auto\" or whole numbers", read_stages, print_stages};
}

SpecialMember group_member() {
  return {"tables", read_groups, print_groups};
}

}  // namespace triax
