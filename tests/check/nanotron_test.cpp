// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/check/case_files.h"
#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/nanotron.h"

namespace triax {
namespace {

const std::string kCases = TRIAX_SOURCE_DIR "/tests/cases/nanotron/";

ForeignReport check_text(const std::string& text,
                         const std::string& file = "a.yaml") {
  return check_foreign(read_nanotron(text, file));
}

bool has_effect(const ForeignReport& report, Effect effect) {
  return std::ranges::any_of(report.problems, [&](const Problem& problem) {
    return problem.effect == effect ||
           (problem.rule == "syntax" && effect == Effect::kRefused);
  });
}

// Without lr_decay_steps the length is what warm-up leaves: less than nothing.
TEST(Nanotron, SeesAWarmUpThatOutlastsARunWithoutALength) {
  std::string text = case_text(kCases + "old_odd_warmup.yaml");
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
    const ForeignReport report = check_text(case_text(kCases + file), file);
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

TEST(Nanotron, FindsWhatTheCasesName) {
  EXPECT_GE(expect_named_findings(kCases, ".yaml", check_text), 75);
}

TEST(Nanotron, ExplainsTheNumberThatIsAText) {
  const ForeignReport report =
      check_text(case_text(kCases + "old_bad_text_eps.yaml"));
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

TEST(Nanotron, ComparesTheRateWithAnotherRuns) {
  const std::string text = case_text(kCases + "plain.yaml");
  std::string doubled = text;
  const std::string steps = "batch_accumulation_per_replica: 4";
  doubled.replace(doubled.find(steps), steps.size(), steps + "0");
  ForeignContext context;
  context.reference = nanotron_facts(read_nanotron(text, "a.yaml"));
  EXPECT_THAT(
      all_text(check_foreign(read_nanotron(doubled, "b.yaml"), context)),
      testing::HasSubstr("the global batch is 160 and was 16 in a.yaml"));
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
