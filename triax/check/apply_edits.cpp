// SPDX-License-Identifier: Apache-2.0
#include "triax/check/apply_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace triax {
namespace {

struct Change {
  size_t column;  // bytes from the line's begin
  size_t length;
  std::string text;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const size_t length = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

// Columns count characters.
size_t offset_of_column(std::string_view line, int column) {
  size_t offset = 0;
  for (int i = 1; i < column && offset < line.size(); ++i) {
    ++offset;
    while (offset < line.size() &&
           (static_cast<unsigned char>(line[offset]) & 0xc0) == 0x80) {
      ++offset;
    }
  }
  return offset;
}

bool is_word(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) || byte == '_';
}

// Where the line says what the edit expects, in quotes or not.
bool find_change(std::string_view line, const SafeEdit& edit, Change& change) {
  size_t at = offset_of_column(line, edit.position.column);
  at += at < line.size() && (line[at] == '"' || line[at] == '\'');
  const size_t end = at + edit.from.size();
  if (edit.from.empty() || line.substr(at, edit.from.size()) != edit.from ||
      (end < line.size() && is_word(line[end]))) {
    return false;
  }
  change = {at, edit.from.size(), edit.to};
  return true;
}

// A digit is no slip of the pen: "bf15" may be bf16 or fp16, and what a key
// with another number does is another thing.
bool is_guess(const Problem& problem) {
  const auto digits = [](const std::string& text) {
    std::string found;
    std::copy_if(
        text.begin(), text.end(), std::back_inserter(found), [](char byte) {
          return std::isdigit(static_cast<unsigned char>(byte)) != 0;
        });
    return found;
  };
  return problem.rule == "unknown-key" &&
         digits(problem.edit->from) != digits(problem.edit->to);
}

bool overlaps(const std::vector<Change>& changes, const Change& other) {
  return std::any_of(
      changes.begin(), changes.end(), [&other](const Change& change) {
        return change.column < other.column + other.length &&
               other.column < change.column + change.length;
      });
}

std::string changed_line(std::string_view line, std::vector<Change> changes) {
  std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return a.column > b.column;
  });
  std::string result(line);
  for (const Change& change : changes) {
    result.replace(change.column, change.length, change.text);
  }
  return result;
}

std::string diff_line(char sign, std::string_view line) {
  std::string text = sign + std::string(line);
  if (!text.ends_with('\n')) {
    text += "\n\\ No newline at end of file\n";
  }
  return text;
}

}  // namespace

EditedText apply_edits(std::string_view text,
                       const std::string& file,
                       const std::vector<Problem>& problems) {
  const std::vector<std::string_view> lines = lines_of(text);
  std::map<size_t, std::vector<Change>> changes;
  // Two slips of one name cannot both become it.
  std::map<std::string, std::set<std::string>> slips;
  for (const Problem& problem : problems) {
    if (problem.edit && problem.edit->position.file == file) {
      slips[problem.edit->to].insert(problem.edit->from);
    }
  }
  EditedText result;
  for (const Problem& problem : problems) {
    if (!problem.edit || problem.edit->position.file != file ||
        problem.edit->position.line < 1 || is_guess(problem) ||
        slips[problem.edit->to].size() > 1) {
      continue;
    }
    const auto line = static_cast<size_t>(problem.edit->position.line - 1);
    Change change;
    if (line < lines.size() &&
        find_change(lines[line], *problem.edit, change) &&
        !overlaps(changes[line], change)) {
      changes[line].push_back(change);
      ++result.num_edits;
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto found = changes.find(i);
    if (found == changes.end() || found->second.empty()) {
      result.text += lines[i];
      continue;
    }
    const std::string line = changed_line(lines[i], found->second);
    result.diff += fmt::format("@@ -{0} +{0} @@\n", i + 1);
    result.diff += diff_line('-', lines[i]) + diff_line('+', line);
    result.text += line;
  }
  if (!result.diff.empty()) {
    result.diff = fmt::format("--- {0}\n+++ {0}\n", file) + result.diff;
  }
  return result;
}

}  // namespace triax
