// SPDX-License-Identifier: Apache-2.0
#include "triax/config/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "triax/base/json.h"
#include "triax/base/log.h"
#include "triax/config/printable_json.h"

namespace triax {
namespace {

constexpr size_t kMaxQuotedBytes = 60;

// On one line, whatever bytes it holds.
std::string without_controls(std::string_view text) {
  std::string line;
  for (const char byte : escape_controls(text)) {
    line += byte == '\n'   ? "\\x0a"
            : byte == '\t' ? "\\x09"
                           : std::string(1, byte);
  }
  return line;
}

std::string place(const Position& position) {
  if (position.line == 0) {
    return position.file;
  }
  return fmt::format("{}:{}:{}", position.file, position.line, position.column);
}

}  // namespace

std::string kind_of(const ConfigValue& value) {
  static const char* const kKinds[] = {"true or false",
                                       "a whole number",
                                       "a number with a fraction",
                                       "a text",
                                       "a list",
                                       "a table"};
  if (const auto* foreign = std::get_if<ForeignValue>(&value.data)) {
    return foreign->kind;
  }
  const auto* real = std::get_if<double>(&value.data);
  if (real != nullptr && !(std::abs(*real) < 0x1p63)) {
    return std::isfinite(*real) ? "a number beyond 64 bits"
                                : "no finite number";
  }
  return kKinds[value.data.index()];
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "?";
}

std::string_view effect_name(Effect effect) {
  switch (effect) {
    case Effect::kNone:
      return "";
    case Effect::kRefused:
      return "refused";
    case Effect::kFailsLater:
      return "fails later";
    case Effect::kIgnored:
      return "ignored";
    case Effect::kSilentlyDifferent:
      return "silently different";
    case Effect::kSlow:
      return "slow";
    case Effect::kOutOfMemory:
      return "out of memory";
  }
  return "?";
}

std::string to_text(const Problem& problem) {
  std::string line = fmt::format("{}: {}[{}]: ",
                                 place(problem.position),
                                 severity_name(problem.severity),
                                 problem.rule);
  if (!problem.field.empty()) {
    line += problem.field + ": ";
  }
  line += problem.message;
  if (problem.effect != Effect::kNone) {
    line += fmt::format(" [{}]", effect_name(problem.effect));
  }
  if (!problem.fix.empty()) {
    line += "; " + problem.fix;
  }
  return without_controls(line);
}

std::string to_json(const std::vector<Problem>& problems) {
  Json array = Json::array();
  for (const Problem& problem : problems) {
    array.push_back({{"severity", severity_name(problem.severity)},
                     {"rule", problem.rule},
                     {"field", problem.field},
                     {"file", problem.position.file},
                     {"line", problem.position.line},
                     {"column", problem.position.column},
                     {"message", problem.message},
                     {"effect", effect_name(problem.effect)},
                     {"fix", problem.fix}});
  }
  return printable_json(array);
}

bool has_errors(const std::vector<Problem>& problems) {
  return std::any_of(problems.begin(), problems.end(), [](const Problem& p) {
    return p.severity == Severity::kError;
  });
}

void sort_problems(std::vector<Problem>& problems) {
  std::vector<std::string> files;
  const auto file_number = [&files](const std::string& file) {
    const auto found = std::find(files.begin(), files.end(), file);
    if (found == files.end()) {
      files.push_back(file);
      return files.size() - 1;
    }
    return static_cast<size_t>(found - files.begin());
  };
  for (const Problem& problem : problems) {
    file_number(problem.position.file);
  }
  const auto key = [&](const Problem& problem) {
    return std::tuple(file_number(problem.position.file),
                      problem.position.line,
                      problem.position.column);
  };
  std::stable_sort(
      problems.begin(),
      problems.end(),
      [&](const Problem& a, const Problem& b) { return key(a) < key(b); });
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) {
    return fmt::format("\"{}\"", text);
  }
  size_t end = kMaxQuotedBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;  // not in the middle of a character
  }
  return fmt::format("\"{}…\"", text.substr(0, end));
}

}  // namespace triax
