// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "triax/base/file.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

constexpr const char* kFolder = TRIAX_SOURCE_DIR "/tests/foreign/deepspeed/";

// "good.w8.json": as one of 8 ranks reads it.
int64_t world_of(const std::string& name) {
  const size_t at = name.find(".w");
  return at == std::string::npos ? 1 : std::stoll(name.substr(at + 2));
}

// "auto" is a note, for the Trainer may fill it, and DeepSpeed alone stops.
bool is_refusal(const Problem& problem) {
  return problem.effect == Effect::kRefused ||
         (problem.rule == "auto-value" &&
          problem.message.find("TypeError") != std::string::npos);
}

std::string verdict(const std::string& name) {
  const std::string file = kFolder + ("cases/" + name);
  const ForeignReport report =
      check_foreign(read_deepspeed(read_file(file, 1 << 20), name),
                    {.world = world_of(name)});
  if (std::any_of(report.problems.begin(), report.problems.end(), is_refusal)) {
    return "refused";
  }
  std::set<std::string> ignored;
  for (const Problem& problem : report.problems) {
    const bool is_key =
        problem.rule == "unknown-key" || problem.rule == "misplaced-key" ||
        problem.rule == "ignored-key" || problem.rule == "precision-conflict";
    if (is_key && problem.effect == Effect::kIgnored) {
      ignored.insert(problem.field);
    }
  }
  std::string line = "accepted";
  for (const std::string& key : ignored) {
    line += " " + key;
  }
  return line;
}

// verdicts.txt is what DeepSpeed 0.19.8's own class said, by
// tests/foreign/deepspeed_verdicts.py.
TEST(DeepSpeedVerdict, EqualsThatOfDeepSpeedConfig) {
  std::istringstream lines(
      read_file(kFolder + std::string("verdicts.txt"), 1 << 20));
  std::string line;
  int num_cases = 0;
  while (std::getline(lines, line)) {
    const size_t blank = line.find(' ');
    const std::string name = line.substr(0, blank);
    std::string expected = line.substr(blank + 1);
    if (expected.starts_with("refused")) {
      expected = "refused";
    }
    EXPECT_EQ(verdict(name), expected) << name;
    ++num_cases;
  }
  EXPECT_GE(num_cases, 100);
}

}  // namespace
}  // namespace triax
