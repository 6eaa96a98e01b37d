// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/check/case_files.h"
#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

const std::string kCases = TRIAX_SOURCE_DIR "/tests/cases/torchtitan/";

ForeignReport check_text(const std::string& text, const std::string& file) {
  ForeignContext context;
  const std::string world = after_mark(text, "# world = ");
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
    const ForeignReport report = check_text(case_text(kCases + file), file);
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

TEST(TorchTitan, FindsWhatTheCasesName) {
  EXPECT_GE(expect_named_findings(kCases, ".toml", check_text), 70);
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

TEST(TorchTitan, ANormOfZeroIsNotOff) {
  const ForeignReport report =
      check_text("[training]\nmax_norm = 0\n", "a.toml");
  EXPECT_THAT(all_text(report),
              testing::HasSubstr("a.toml:2:12: error[out-of-range]: "
                                 "training.max_norm: 0 is not off"));
  EXPECT_THAT(all_text(check_text("[training]\nmax_norm = -1.0\n", "a.toml")),
              testing::HasSubstr("-1 turns every gradient round"));
}

TEST(TorchTitan, TakesEachRateForItself) {
  const std::string text =
      "[optimizer]\nlr = -1\n[lr_scheduler]\nmin_lr_factor = ";
  EXPECT_THAT(
      all_text(check_text(text + "2.0\n", "a.toml")),
      testing::AllOf(testing::HasSubstr("a.toml:2:6: error[out-of-range]: "
                                        "optimizer.lr: -1: torch's AdamW"),
                     testing::HasSubstr("a.toml:4:17: error[out-of-range]: "
                                        "lr_scheduler.min_lr_factor: the rate "
                                        "goes from lr to 2 times lr: it "
                                        "rises")));
  EXPECT_THAT(all_text(check_text(text + "-0.5\n", "a.toml")),
              testing::HasSubstr("below 0 each step climbs the loss"));
  EXPECT_THAT(all_text(check_text(text + "0.1\n", "a.toml")),
              testing::Not(testing::HasSubstr("min_lr_factor")));
  EXPECT_THAT(all_text(check_text("[optimizer]\nlr = nan\n", "a.toml")),
              testing::HasSubstr("error[out-of-range]: optimizer.lr: nan is no "
                                 "number"));
}

TEST(TorchTitan, SaysOnceThatAFileIsOld) {
  const std::string two = "[training]\nbatch_size = 4\nwarmup_steps = 20\n";
  EXPECT_EQ(check_text(two, "a.toml").problems.size(), 2);
  const ForeignReport report = check_text(
      two + "compile = true\n[checkpoint]\nenable_checkpoint = true\n",
      "a.toml");
  ASSERT_EQ(report.problems.size(), 1);
  const Problem& problem = report.problems[0];
  EXPECT_EQ(problem.severity, Severity::kError);
  EXPECT_EQ(problem.effect, Effect::kRefused);
  EXPECT_EQ(problem.position.line, 2);
  EXPECT_EQ(problem.message,
            "the file is written for a TorchTitan before 0.1.0, and 0.2.2 "
            "stops at 4 of its keys: training.batch_size (line 2; now "
            "training.local_batch_size), training.warmup_steps (line 3; now "
            "lr_scheduler.warmup_steps), training.compile (line 4; now "
            "compile.enable), checkpoint.enable_checkpoint (line 6; now "
            "checkpoint.enable)");
  EXPECT_FALSE(problem.edit.has_value());
  const ForeignReport newer = check_text(
      "[training]\nseed = 4\ndeterministic = true\n"
      "debug_moe_force_load_balance = true\n",
      "a.toml");
  ASSERT_EQ(newer.problems.size(), 1);
  EXPECT_THAT(newer.problems[0].message,
              testing::HasSubstr("a TorchTitan before 0.2.1, and 0.2.2 stops "
                                 "at 3 of its keys"));
}

TEST(TorchTitan, RenamesNothingInAnOldFile) {
  const ForeignReport report = check_text(
      "[model]\ntokenizer_path = \"./t\"\n"
      "[training]\nbatch_size = 4\nwarmup_steps = 2\ncompile = true\n"
      "[metrics]\nlog_frec = 10\n",
      "a.toml");
  ASSERT_GE(report.problems.size(), 3);
  for (const Problem& problem : report.problems) {
    EXPECT_FALSE(problem.edit.has_value()) << to_text(problem);
  }
  const ForeignReport newer =
      check_text("[model]\ntokenizer_path = \"./t\"\n", "a.toml");
  ASSERT_FALSE(newer.problems.empty());
  EXPECT_TRUE(newer.problems[0].edit.has_value());
}

TEST(TorchTitan, RenamesASingleOldKey) {
  const ForeignReport report =
      check_text("[training]\nbatch_size = 4\n", "a.toml");
  ASSERT_EQ(report.problems.size(), 1);
  ASSERT_TRUE(report.problems[0].edit.has_value());
  EXPECT_EQ(report.problems[0].edit->to, "local_batch_size");
}

TEST(TorchTitan, SplitsTheKvHeadsOfAGivenModel) {
  ForeignContext context;
  context.model = ModelConfig{};
  context.model->num_attention_heads = 32;
  context.model->num_key_value_heads = 2;
  context.model_file = "config.json";
  const ForeignReport report = check_foreign(
      read_torchtitan("[model]\nname = \"mine\"\n"
                      "[experimental]\ncustom_import = \"mine.models\"\n"
                      "[parallelism]\ntensor_parallel_degree = 4\n",
                      "a.toml"),
      context);
  EXPECT_THAT(all_text(report),
              testing::HasSubstr("2 KV heads do not split over tp 4"));
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
