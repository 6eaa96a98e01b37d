// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "tests/check/case_files.h"
#include "tests/check/megatron_cases.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/megatron.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = TRIAX_SOURCE_DIR "/tests/cases";

// What follows "# MARK: " on the script's own lines.
std::set<std::string> marked(const fs::path& path, const std::string& mark) {
  std::istringstream lines(case_text(path));
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

std::vector<MegatronCase> cases() {
  return read_megatron_cases(case_text(kCases / "megatron/base.sh"),
                             case_text(kCases / "megatron/cases.txt"));
}

// verdicts.txt is what Megatron-LM core_v0.19.2's own code said of each
// script, by tests/foreign/megatron_verdicts.py.
TEST(MegatronVerdict, EqualsThatOfItsOwnCode) {
  std::map<std::string, std::string> verdicts;
  for (const std::string& line :
       detail::lines_of(case_text(kCases / "megatron/verdicts.txt"))) {
    std::istringstream words(line);
    std::string name;
    words >> name >> verdicts[name];
  }
  const std::vector<MegatronCase> all = cases();
  EXPECT_GE(all.size(), 120u);
  EXPECT_EQ(verdicts.size(), all.size());
  for (const MegatronCase& one : all) {
    const ForeignReport report =
        check_foreign(read_megatron(one.script, one.name));
    EXPECT_EQ(refuses(report) ? "refused" : "accepted", verdicts[one.name])
        << one.name << "\n"
        << all_text(report);
  }
}

void expect_findings(const MegatronCase& one) {
  const ForeignReport report =
      check_foreign(read_megatron(one.script, one.name));
  EXPECT_EQ(found(report), one.finds) << one.name << "\n" << all_text(report);
  std::set<std::string> notes;
  for (const Problem& problem : report.problems) {
    notes.insert(short_text(problem));
  }
  for (const std::string& note : one.notes) {
    EXPECT_TRUE(notes.contains(note)) << one.name << " " << note;
  }
  for (const std::string& what : one.unjudged) {
    EXPECT_TRUE(std::any_of(report.unjudged.begin(),
                            report.unjudged.end(),
                            [&](const std::string& text) {
                              return text.find(what) != std::string::npos;
                            }))
        << one.name << " " << what;
  }
}

TEST(MegatronFindings, AreThoseOfEachCase) {
  for (const MegatronCase& one : cases()) {
    expect_findings(one);
  }
}

TEST(MegatronFindings, AreThoseOfEachScript) {
  for (const auto& entry :
       fs::directory_iterator(kCases / "megatron_scripts")) {
    expect_findings({entry.path().filename().string(),
                     marked(entry.path(), "finds"),
                     marked(entry.path(), "notes"),
                     marked(entry.path(), "unjudged"),
                     case_text(entry.path())});
  }
}

TEST(MegatronFindings, StandAtTheLiteral) {
  for (const MegatronCase& one : cases()) {
    if (one.name == "bad_min_lr") {
      const ForeignReport report =
          check_foreign(read_megatron(one.script, one.name));
      ASSERT_EQ(report.problems.size(), 1u);
      EXPECT_EQ(report.problems[0].position.line, 31);
      EXPECT_EQ(report.problems[0].position.column, 10);
      EXPECT_NE(report.problems[0].fix, "");
    }
  }
}

TEST(MegatronFindings, WorldsAreRead) {
  for (const auto& entry :
       fs::directory_iterator(kCases / "megatron_scripts")) {
    for (const std::string& world : marked(entry.path(), "world")) {
      const ForeignConfig config = read_megatron(
          case_text(entry.path()), entry.path().filename().string());
      const ConfigValue* value = find_value(config.table, "launch.world");
      ASSERT_NE(value, nullptr) << entry.path();
      EXPECT_EQ(value_text(*value), world) << entry.path();
    }
  }
}

}  // namespace
}  // namespace triax
