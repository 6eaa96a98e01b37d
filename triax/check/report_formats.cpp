// SPDX-License-Identifier: Apache-2.0
#include "triax/check/report_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "triax/base/json.h"
#include "triax/base/log.h"
#include "triax/config/printable_json.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

std::string sentence(const Problem& problem) {
  std::string text;
  if (!problem.field.empty()) {
    text += problem.field + ": ";
  }
  text += problem.message;
  if (problem.effect != Effect::kNone) {
    text += fmt::format(" [{}]", effect_name(problem.effect));
  }
  return problem.fix.empty() ? text : text + "; " + problem.fix;
}

// A relative reference by RFC 3986: a path, its other bytes in percent.
std::string uri_of(const std::string& path) {
  std::string uri;
  for (const char byte : path) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(byte)) ||
        std::string_view("-._~/").find(byte) != std::string_view::npos;
    uri += is_plain ? std::string(1, byte)
                    : fmt::format("%{:02X}", static_cast<unsigned char>(byte));
  }
  return uri;
}

Json location_of(const Position& position) {
  Json physical = {{"artifactLocation", {{"uri", uri_of(position.file)}}}};
  if (position.line > 0) {
    physical["region"] = {{"startLine", position.line},
                          {"startColumn", std::max(1, position.column)}};
  }
  return {{"physicalLocation", physical}};
}

std::string help_of(const std::string& id) {
  for (const Rule& rule : rules()) {
    if (rule.id == id) {
      return std::string(rule.meaning);
    }
  }
  return "";
}

std::string escaped(const std::string& text, bool is_property) {
  std::string result;
  // What the runner has an escape for first, then what terminals obey.
  for (const char byte : text) {
    const bool is_special = byte == '%' || byte == '\r' || byte == '\n' ||
                            (is_property && (byte == ':' || byte == ','));
    result += is_special
                  ? fmt::format("%{:02X}", static_cast<unsigned char>(byte))
                  : std::string(1, byte);
  }
  return escape_controls(result);
}

}  // namespace

std::string to_sarif(const std::vector<Problem>& problems,
                     const std::string& version) {
  std::vector<std::string> ids;
  Json results = Json::array();
  for (const Problem& problem : problems) {
    auto found = std::find(ids.begin(), ids.end(), problem.rule);
    if (found == ids.end()) {
      found = ids.insert(ids.end(), problem.rule);
    }
    Json result = {{"ruleId", problem.rule},
                   {"ruleIndex", found - ids.begin()},
                   {"level", severity_name(problem.severity)},
                   {"message", {{"text", sentence(problem)}}}};
    if (!problem.position.file.empty()) {
      result["locations"] = Json::array({location_of(problem.position)});
    }
    results.push_back(result);
  }
  Json descriptors = Json::array();
  for (const std::string& id : ids) {
    descriptors.push_back(
        {{"id", id}, {"shortDescription", {{"text", help_of(id)}}}});
  }
  const Json driver = {
      {"name", "triax check"}, {"version", version}, {"rules", descriptors}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"columnKind", "unicodeCodePoints"},
                    {"results", results}};
  return printable_json(
      {{"$schema",
        "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
        "sarif-schema-2.1.0.json"},
       {"version", "2.1.0"},
       {"runs", Json::array({run})}});
}

std::string to_github(const std::vector<Problem>& problems) {
  static constexpr std::string_view kCommands[] = {
      "error", "warning", "notice"};
  std::string text;
  for (const Problem& problem : problems) {
    text += fmt::format("::{} file={}",
                        kCommands[static_cast<int>(problem.severity)],
                        escaped(problem.position.file, true));
    if (problem.position.line > 0) {
      text += fmt::format(",line={},col={}",
                          problem.position.line,
                          std::max(1, problem.position.column));
    }
    text += fmt::format(",title={}::{}\n",
                        escaped(problem.rule, true),
                        escaped(sentence(problem), false));
  }
  return text;
}

}  // namespace triax
