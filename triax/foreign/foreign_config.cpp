// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/foreign_config.h"

#include <fmt/format.h>

#include "triax/config/problem.h"

namespace triax {
namespace {

const ConfigEntry* entry_named(const ConfigTable& table,
                               std::string_view name) {
  for (const ConfigEntry& entry : table) {
    if (entry.key == name) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

const ConfigEntry* find_entry(const ConfigTable& table, std::string_view path) {
  if (const ConfigEntry* entry = entry_named(table, path)) {
    return entry;
  }
  for (size_t dot = path.find('.'); dot != std::string_view::npos;
       dot = path.find('.', dot + 1)) {
    const ConfigEntry* entry = entry_named(table, path.substr(0, dot));
    const auto* below = entry == nullptr
                            ? nullptr
                            : std::get_if<ConfigTable>(&entry->value.data);
    if (below != nullptr) {
      return find_entry(*below, path.substr(dot + 1));
    }
  }
  return nullptr;
}

const ConfigValue* find_value(const ConfigTable& table, std::string_view path) {
  const ConfigEntry* entry = find_entry(table, path);
  return entry == nullptr ? nullptr : &entry->value;
}

std::string value_text(const ConfigValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return *flag ? "true" : "false";
  }
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return fmt::format("{}", *whole);
  }
  if (const auto* real = std::get_if<double>(&value.data)) {
    return fmt::format("{}", *real);
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return in_quotes(*text);
  }
  if (const auto* items = std::get_if<ConfigArray>(&value.data)) {
    return fmt::format("a list of {}", items->size());
  }
  if (const auto* table = std::get_if<ConfigTable>(&value.data)) {
    return fmt::format("a table of {}", table->size());
  }
  return std::get<ForeignValue>(value.data).kind;
}

}  // namespace triax
