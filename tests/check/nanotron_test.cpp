// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/nanotron.h"

namespace triax {
namespace {

const std::string kCases = TRIAX_SOURCE_DIR "/tests/cases/nanotron/";

std::string file_text(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

ForeignReport check_text(const std::string& text,
                         const std::string& file = "a.yaml") {
  return check_foreign(read_nanotron(text, file));
}

std::string all_text(const ForeignReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) {
    text += to_text(problem) + "\n";
  }
  return text;
}

bool has_effect(const ForeignReport& report, Effect effect) {
  return std::ranges::any_of(report.problems, [&](const Problem& problem) {
    return problem.effect == effect ||
           (problem.rule == "syntax" && effect == Effect::kRefused);
  });
}

// Without lr_decay_steps the length is what warm-up leaves: less than nothing.
TEST(Nanotron, SeesAWarmUpThatOutlastsARunWithoutALength) {
  std::string text = file_text(kCases + "old_odd_warmup.yaml");
  const std::string length = "lr_decay_steps: 13";
  ASSERT_NE(text.find(length), std::string::npos);
  text.replace(text.find(length), length.size(), "lr_decay_steps: null");
  EXPECT_THAT(all_text(check_text(text)),
              testing::HasSubstr("ends before warm-up's 20"));
}

// What tests/foreign/nanotron_verdicts.py had the package 0.4 say. Shapes are
// asserted by its model's constructor, which it does not call.
TEST(Nanotron, VerdictIsThatOfThePackage) {
  std::ifstream in(kCases + "verdicts.tsv");
  std::string line;
  int count = 0;
  while (std::getline(in, line)) {
    std::istringstream parts(line);
    std::string file;
    std::string verdict;
    std::getline(parts, file, '\t');
    std::getline(parts, verdict, '\t');
    const ForeignReport report = check_text(file_text(kCases + file), file);
    const bool is_shape = std::ranges::any_of(
        report.problems,
        [](const Problem& problem) { return problem.rule == "heads-divide"; });
    EXPECT_EQ(has_effect(report, Effect::kRefused) && !is_shape,
              verdict == "refused")
        << line << "\n"
        << all_text(report);
    ++count;
  }
  EXPECT_GE(count, 50);
}

// The second line of each file names the rules that speak, notes aside.
TEST(Nanotron, FindsWhatTheCasesName) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCases)) {
    if (entry.path().extension() != ".yaml") {
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
    const size_t at = text.find("# finds =") + 9;
    std::istringstream words(text.substr(at, text.find('\n', at) - at));
    const std::set<std::string> named{std::istream_iterator<std::string>(words),
                                      {}};
    EXPECT_EQ(found, named) << entry.path() << "\n" << all_text(report);
    ++count;
  }
  EXPECT_GE(count, 75);
}

TEST(Nanotron, ExplainsTheNumberThatIsAText) {
  const ForeignReport report =
      check_text(file_text(kCases + "old_bad_text_eps.yaml"));
  const auto problem =
      std::ranges::find(report.problems, "wrong-type", &Problem::rule);
  ASSERT_NE(problem, report.problems.end());
  EXPECT_THAT(problem->message, testing::HasSubstr("YAML 1.1"));
  EXPECT_EQ(problem->fix, "write 1.0e-8");
  ASSERT_TRUE(problem->edit.has_value());
  EXPECT_EQ(problem->edit->to, "1.0e-8");
}

TEST(Nanotron, SaysWhereAKeyIsMissingOrTwice) {
  const ForeignReport report = check_text(
      "general: {project: x}\nparallelism:\n  dp: 1\n  pp: 1\n  dp: 2\n"
      "model:\n  init_method: {std: 0.02}\n  model_config: {}\n");
  const auto twice =
      std::ranges::find(report.problems, "duplicate-key", &Problem::rule);
  ASSERT_NE(twice, report.problems.end());
  EXPECT_EQ(twice->position.line, 5);
  const auto missing =
      std::ranges::find(report.problems, "parallelism.tp", &Problem::field);
  ASSERT_NE(missing, report.problems.end());
  EXPECT_EQ(missing->rule, "missing-key");
  EXPECT_EQ(missing->position.line, 2);
}

TEST(Nanotron, SurvivesEveryKindOfValueEverywhere) {
  for (const std::string value : {"9223372036854775807",
                                  "-9223372036854775808",
                                  "99999999999999999999",
                                  "0",
                                  "-1",
                                  "1.0e+308",
                                  ".nan",
                                  "''",
                                  "[]",
                                  "{}",
                                  "yes",
                                  "null",
                                  "2026-03-01",
                                  "[{a: 1}]"}) {
    for (const KeyTable* table : {&nanotron_keys(), &nanotron_old_keys()}) {
      for (const KeyRow& row : table->rows()) {
        std::string text = "{";
        std::string ends = "}";
        for (const char byte : row.key) {
          text += byte == '.' ? ": {" : std::string(1, byte);
          ends += byte == '.' ? "}" : "";
        }
        if (text.find('*') != std::string::npos) {
          continue;
        }
        for (const Problem& problem :
             check_text(text + ": " + value + ends).problems) {
          EXPECT_FALSE(problem.message.empty());
        }
      }
    }
  }
}

}  // namespace
}  // namespace triax
