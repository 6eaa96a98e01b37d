// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "triax/base/file.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/megatron.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = TRIAX_SOURCE_DIR "/tests/cases";

std::string text_of(const fs::path& path) {
  return read_file(path.string(), 1 << 20);
}

ForeignReport report_of(const fs::path& path) {
  return check_foreign(read_megatron(text_of(path), path.filename().string()));
}

// What follows "# MARK: " on the script's own lines.
std::set<std::string> marked(const fs::path& path, const std::string& mark) {
  std::istringstream lines(text_of(path));
  std::set<std::string> result;
  std::string line;
  while (std::getline(lines, line)) {
    const std::string begin = "# " + mark + ": ";
    if (line.starts_with(begin)) {
      line.erase(0, begin.size());
      while (line.ends_with(' ')) {
        line.pop_back();
      }
      result.insert(line);
    }
  }
  return result;
}

std::string short_text(const Problem& problem) {
  const std::string field = problem.field.empty() ? "" : " " + problem.field;
  return problem.rule + field;
}

// Errors and warnings; notes are for people, not for verdicts.
std::set<std::string> found(const ForeignReport& report) {
  std::set<std::string> result;
  for (const Problem& problem : report.problems) {
    if (problem.severity != Severity::kNote) {
      result.insert(std::string(severity_name(problem.severity)) + " " +
                    short_text(problem));
    }
  }
  return result;
}

// Errors, and warnings that say so.
bool refuses(const ForeignReport& report) {
  return std::any_of(report.problems.begin(),
                     report.problems.end(),
                     [](const Problem& problem) {
                       return problem.severity == Severity::kError ||
                              (problem.severity == Severity::kWarning &&
                               problem.effect == Effect::kRefused);
                     });
}

// verdicts.txt is what Megatron-LM core_v0.19.2's own code said of each
// script, by tests/foreign/megatron_verdicts.py.
TEST(MegatronVerdict, EqualsThatOfItsOwnCode) {
  std::istringstream lines(text_of(kCases / "megatron/verdicts.txt"));
  std::string line;
  int num_cases = 0;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string name;
    std::string verdict;
    words >> name >> verdict;
    const ForeignReport report = report_of(kCases / "megatron" / name);
    EXPECT_EQ(refuses(report) ? "refused" : "accepted", verdict) << line;
    ++num_cases;
  }
  EXPECT_GE(num_cases, 100);
}

void expect_findings(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "verdicts.txt") {
      continue;
    }
    const ForeignReport report = report_of(entry.path());
    EXPECT_EQ(found(report), marked(entry.path(), "finds")) << name;
    std::set<std::string> notes;
    for (const Problem& problem : report.problems) {
      notes.insert(short_text(problem));
    }
    for (const std::string& note : marked(entry.path(), "notes")) {
      EXPECT_TRUE(notes.contains(note)) << name << " " << note;
    }
    for (const std::string& what : marked(entry.path(), "unjudged")) {
      EXPECT_TRUE(std::any_of(report.unjudged.begin(),
                              report.unjudged.end(),
                              [&](const std::string& text) {
                                return text.find(what) != std::string::npos;
                              }))
          << name << " " << what;
    }
  }
}

TEST(MegatronFindings, AreThoseOfEachCase) {
  expect_findings(kCases / "megatron");
}

TEST(MegatronFindings, AreThoseOfEachScript) {
  expect_findings(kCases / "megatron_scripts");
}

TEST(MegatronFindings, StandAtTheLiteral) {
  const ForeignReport report = report_of(kCases / "megatron/bad_min_lr.sh");
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].position.line, 32);
  EXPECT_EQ(report.problems[0].position.column, 14);
  EXPECT_NE(report.problems[0].fix, "");
}

TEST(MegatronFindings, WorldsAreRead) {
  for (const auto& entry :
       fs::directory_iterator(kCases / "megatron_scripts")) {
    for (const std::string& world : marked(entry.path(), "world")) {
      const ForeignConfig config = read_megatron(
          text_of(entry.path()), entry.path().filename().string());
      const ConfigValue* value = find_value(config.table, "launch.world");
      ASSERT_NE(value, nullptr) << entry.path();
      EXPECT_EQ(value_text(*value), world) << entry.path();
    }
  }
}

}  // namespace
}  // namespace triax
