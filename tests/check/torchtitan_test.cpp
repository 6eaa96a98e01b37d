// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

const std::string kCases = TRIAX_SOURCE_DIR "/tests/cases/torchtitan/";

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string after(const std::string& text, const std::string& mark) {
  const size_t at = text.find(mark);
  return at == std::string::npos
             ? ""
             : text.substr(at + mark.size(),
                           text.find('\n', at) - at - mark.size());
}

ForeignReport check_text(const std::string& text, const std::string& file) {
  ForeignContext context;
  const std::string world = after(text, "# world = ");
  if (!world.empty()) {
    context.world = std::stoll(world);
  }
  return check_foreign(read_torchtitan(text, file), context);
}

// The rules that all systems share do not know when TorchTitan finds out.
bool is_shared(const Problem& problem) {
  return problem.rule == "world-size" || problem.rule == "batch-triangle";
}

bool is_refused_in(const ForeignReport& report) {
  return std::ranges::any_of(report.problems, [](const Problem& problem) {
    return problem.rule == "syntax" ||
           (problem.effect == Effect::kRefused && !is_shared(problem));
  });
}

bool fails_in(const ForeignReport& report) {
  return std::ranges::any_of(report.problems, [](const Problem& problem) {
    return problem.effect == Effect::kFailsLater ||
           (problem.effect == Effect::kRefused && is_shared(problem));
  });
}

std::string all_text(const ForeignReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) {
    text += to_text(problem) + "\n";
  }
  return text;
}

struct Verdict {
  std::string loads;
  std::string starts;
  std::string why;
};

// What tests/foreign/torchtitan_verdicts.py had TorchTitan itself say.
std::map<std::string, Verdict> read_verdicts() {
  std::map<std::string, Verdict> verdicts;
  std::ifstream in(kCases + "verdicts.tsv");
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream parts(line);
    std::string file;
    Verdict verdict;
    std::getline(parts, file, '\t');
    std::getline(parts, verdict.loads, '\t');
    std::getline(parts, verdict.starts, '\t');
    std::getline(parts, verdict.why, '\t');
    verdicts[file] = verdict;
  }
  return verdicts;
}

TEST(TorchTitan, VerdictIsTorchTitansOwn) {
  const auto verdicts = read_verdicts();
  EXPECT_GE(verdicts.size(), 70);
  for (const auto& [file, verdict] : verdicts) {
    const ForeignReport report = check_text(file_text(kCases + file), file);
    const bool is_refused = is_refused_in(report);
    const bool fails = fails_in(report);
    EXPECT_EQ(is_refused, verdict.loads == "refused")
        << file << ": " << verdict.why << "\n"
        << all_text(report);
    if (verdict.starts != "-") {
      EXPECT_EQ(is_refused || fails, verdict.starts == "fails")
          << file << ": " << verdict.why << "\n"
          << all_text(report);
    }
  }
}

// The second line of each file names the rules that speak, notes aside.
TEST(TorchTitan, FindsWhatTheCasesName) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCases)) {
    if (entry.path().extension() != ".toml") {
      continue;
    }
    const std::string text = file_text(entry.path());
    const ForeignReport report =
        check_text(text, entry.path().filename().string());
    std::set<std::string> found;
    for (const Problem& problem : report.problems) {
      if (problem.severity != Severity::kNote) {
        found.insert(problem.rule);
      }
    }
    std::istringstream words(after(text, "# finds ="));
    const std::set<std::string> named{std::istream_iterator<std::string>(words),
                                      {}};
    EXPECT_EQ(found, named) << entry.path() << "\n" << all_text(report);
    ++count;
  }
  EXPECT_GE(count, 70);
}

TEST(TorchTitan, SaysWhereAndWhat) {
  const ForeignReport report = check_text(
      "# world = 8\n[parallelism]\ntensor_parallel_degree = 2\n"
      "enable_async_tensor_parallel = true\n[training]\nbatch_size = 4\n",
      "a.toml");
  ASSERT_EQ(report.problems.size(), 2);
  EXPECT_EQ(report.problems[0].position.line, 4);
  EXPECT_EQ(report.problems[0].rule, "refused-combination");
  EXPECT_EQ(report.problems[1].rule, "removed-key");
  EXPECT_EQ(report.problems[1].position.line, 6);
  EXPECT_THAT(report.problems[1].fix,
              testing::HasSubstr("training.local_batch_size"));
}

// An old name is said once, not again by what it would have made possible.
TEST(TorchTitan, TakesTheOldNameOfCompileForWhatItMeant) {
  const ForeignReport report = check_text(
      "# world = 8\n[parallelism]\ntensor_parallel_degree = 2\n"
      "enable_async_tensor_parallel = true\n[training]\ncompile = true\n",
      "a.toml");
  ASSERT_EQ(report.problems.size(), 1);
  EXPECT_EQ(report.problems[0].rule, "removed-key");
  EXPECT_EQ(report.problems[0].field, "training.compile");
}

TEST(TorchTitan, NotesWhatMayHangAndWhatExpertsNeed) {
  const ForeignReport report = check_text(
      "# world = 8\n[model]\nname = \"llama4\"\n"
      "[validation]\nenable = true\n"
      "[parallelism]\nexpert_parallel_degree = 5\n",
      "a.toml");
  const auto hangs =
      std::ranges::find(report.problems, "validation-hangs", &Problem::rule);
  ASSERT_NE(hangs, report.problems.end());
  EXPECT_EQ(hangs->severity, Severity::kNote);
  const auto experts =
      std::ranges::find(report.problems, "experts-divide", &Problem::rule);
  ASSERT_NE(experts, report.problems.end());
  EXPECT_THAT(experts->message, testing::HasSubstr("= 8 do not split"));
}

TEST(TorchTitan, LeavesKeysOfACustomModuleAlone) {
  const ForeignReport report = check_text(
      "[job]\ncustom_config_module = \"mine.config\"\n[mine]\nx = 1\n"
      "[training]\nmy_key = 2\n",
      "a.toml");
  EXPECT_THAT(report.problems, testing::IsEmpty());
  EXPECT_FALSE(report.unjudged.empty());
}

TEST(TorchTitan, SurvivesNumbersAtEveryBound) {
  for (const std::string value : {"9223372036854775807",
                                  "-9223372036854775808",
                                  "0",
                                  "-1",
                                  "1e308",
                                  "nan",
                                  "\"\"",
                                  "[]",
                                  "{}",
                                  "true",
                                  "2026-03-01"}) {
    for (const KeyRow& row : torchtitan_keys().rows()) {
      const size_t dot = row.key.rfind('.');
      if (dot == std::string_view::npos) {
        continue;
      }
      const std::string text =
          "# world = 8\n[" + std::string(row.key.substr(0, dot)) + "]\n" +
          std::string(row.key.substr(dot + 1)) + " = " + value + "\n";
      for (const Problem& problem : check_text(text, "a.toml").problems) {
        EXPECT_FALSE(problem.message.empty());
      }
    }
  }
}

}  // namespace
}  // namespace triax
