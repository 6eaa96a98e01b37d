// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/key_table.h"

#include <algorithm>
#include <charconv>

#include "triax/base/error.h"

namespace triax {
namespace {

std::string_view last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

bool has_star(std::string_view path) {
  return path.find('*') != std::string_view::npos;
}

// "a.*.c" against "a.b.c": part by part, a star takes any one part.
bool matches(std::string_view pattern, std::string_view path) {
  while (true) {
    const size_t pattern_end = pattern.find('.');
    const size_t path_end = path.find('.');
    const std::string_view part = pattern.substr(0, pattern_end);
    if (part != "*" && part != path.substr(0, path_end)) {
      return false;
    }
    if (pattern_end == std::string_view::npos ||
        path_end == std::string_view::npos) {
      return pattern_end == path_end;
    }
    pattern.remove_prefix(pattern_end + 1);
    path.remove_prefix(path_end + 1);
  }
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> result;
  while (!words.empty()) {
    const size_t bar = words.find('|');
    std::string_view word = words.substr(0, bar);
    while (!word.empty() && word.front() == ' ') {
      word.remove_prefix(1);
    }
    while (!word.empty() && word.back() == ' ') {
      word.remove_suffix(1);
    }
    result.push_back(word);
    words = bar == std::string_view::npos ? "" : words.substr(bar + 1);
  }
  return result;
}

int compare_versions(std::string_view a, std::string_view b) {
  for (int part = 0; part < 3; ++part) {
    int numbers[2] = {};
    for (int i = 0; i < 2; ++i) {
      std::string_view& text = i == 0 ? a : b;
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
      const auto length = static_cast<size_t>(end - text.data());
      text.remove_prefix(std::min(text.size(), length + 1));
    }
    if (numbers[0] != numbers[1]) {
      return numbers[0] < numbers[1] ? -1 : 1;
    }
  }
  return 0;
}

bool is_too_new(const KeyRow& row, std::string_view version) {
  if (version.empty() || row.since.empty()) {
    return false;
  }
  const size_t dots = row.since.find("..");
  return dots == std::string_view::npos
             ? compare_versions(version, row.since) < 0
             : compare_versions(version, row.since.substr(0, dots)) <= 0;
}

bool is_still_there(const KeyRow& row, std::string_view version) {
  return !version.empty() && !row.removed.empty() &&
         compare_versions(version, row.removed) < 0;
}

KeyTable::KeyTable(std::string_view version, std::span<const KeyRow> rows)
    : version_(version), rows_(rows) {
  for (const KeyRow& row : rows_) {
    if (has_star(row.key)) {
      patterns_.push_back(&row);
      continue;
    }
    const bool is_new = by_path_.emplace(row.key, &row).second;
    TRIAX_CHECK(is_new, "the key stands twice: ", row.key);
    const std::string_view section = section_of(row.key);
    for (const std::string_view alias : split_words(row.aliases)) {
      std::string path(section);
      path += section.empty() ? "" : ".";
      path += alias;
      TRIAX_CHECK(by_path_.emplace(path, &row).second,
                  "the alias stands twice: ",
                  path);
    }
  }
}

const KeyRow* KeyTable::find(std::string_view path) const {
  const auto found = by_path_.find(std::string(path));
  if (found != by_path_.end()) {
    return found->second;
  }
  for (const KeyRow* row : patterns_) {
    if (matches(row->key, path)) {
      return row;
    }
  }
  return nullptr;
}

bool KeyTable::is_section(std::string_view path) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const KeyRow& row) {
    return row.key.size() > path.size() + 1 && row.key.starts_with(path) &&
           row.key[path.size()] == '.';
  });
}

std::vector<std::string_view> KeyTable::names_in(
    std::string_view section) const {
  std::vector<std::string_view> names;
  for (const KeyRow& row : rows_) {
    const std::string_view parent = section_of(row.key);
    if (row.use == KeyUse::kRefused || row.key.ends_with('*') ||
        (has_star(parent) ? !matches(parent, section) : parent != section)) {
      continue;
    }
    names.push_back(last_part(row.key));
    for (const std::string_view alias : split_words(row.aliases)) {
      names.push_back(alias);
    }
  }
  return names;
}

std::vector<std::string_view> KeyTable::places_of(std::string_view name) const {
  std::vector<std::string_view> places;
  for (const KeyRow& row : rows_) {
    if (row.use != KeyUse::kRefused && !has_star(row.key) &&
        last_part(row.key) == name) {
      places.push_back(row.key);
    }
  }
  return places;
}

}  // namespace triax
