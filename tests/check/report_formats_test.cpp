// SPDX-License-Identifier: Apache-2.0
#include "triax/check/report_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/base/json.h"
#include "triax/check/apply_edits.h"

namespace triax {
namespace {

using testing::HasSubstr;

Problem problem_at(int line, int column) {
  return {Severity::kWarning,
          "no-effect",
          "a.b",
          {"dir/a b.json", line, column},
          "100% of\nit: x, y",
          "leave it out",
          Effect::kIgnored};
}

TEST(Github, EscapesWhatItsRunnerReads) {
  EXPECT_EQ(to_github({problem_at(3, 5)}),
            "::warning file=dir/a b.json,line=3,col=5,title=no-effect::a.b: "
            "100%25 of%0Ait: x, y [ignored]; leave it out\n");
  Problem odd = problem_at(0, 0);
  odd.position.file = "a,b:c\r.json";
  EXPECT_THAT(to_github({odd}),
              testing::StartsWith("::warning file=a%2Cb%3Ac%0D.json,title="));
}

TEST(Sarif, HasTheMembersOfTheStandard) {
  const Json log = parse_json(
      to_sarif({problem_at(3, 5), problem_at(0, 0)}, "0.1"), "sarif");
  EXPECT_EQ(log["version"], "2.1.0");
  const Json& run = log["runs"][0];
  EXPECT_EQ(run["columnKind"], "unicodeCodePoints");
  EXPECT_EQ(run["tool"]["driver"]["rules"].size(), 1u);
  EXPECT_EQ(run["tool"]["driver"]["rules"][0]["id"], "no-effect");
  const Json& result = run["results"][0];
  EXPECT_EQ(result["level"], "warning");
  EXPECT_EQ(result["ruleIndex"], 0);
  const Json& place = result["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"], "dir/a%20b.json");
  EXPECT_EQ(place["region"]["startLine"], 3);
  EXPECT_EQ(place["region"]["startColumn"], 5);
  EXPECT_FALSE(
      run["results"][1]["locations"][0]["physicalLocation"].contains("region"));
  EXPECT_EQ(parse_json(to_sarif({}, "0.1"), "sarif")["runs"][0]["results"],
            Json::array());
}

Problem edit_at(int line, int column, const char* from, const char* to) {
  Problem problem = problem_at(line, column);
  problem.edit = SafeEdit{{"a", line, column}, from, to};
  return problem;
}

TEST(ApplyEdits, ChangeTheirPlaceAndNothingElse) {
  const std::string text = "{ # é\n  \"old\": 1, /*é*/ other: 2\n}";
  const EditedText edited = apply_edits(
      text, "a", {edit_at(2, 19, "other", "b"), edit_at(2, 3, "old", "new")});
  EXPECT_EQ(edited.num_edits, 2);
  EXPECT_EQ(edited.text, "{ # é\n  \"new\": 1, /*é*/ b: 2\n}");
  EXPECT_EQ(edited.diff,
            "--- a\n+++ a\n@@ -2 +2 @@\n-  \"old\": 1, /*é*/ other: 2\n"
            "+  \"new\": 1, /*é*/ b: 2\n");
}

TEST(ApplyEdits, LeaveOutWhatDoesNotStandThere) {
  for (const Problem& problem : {edit_at(1, 1, "old", "new"),
                                 edit_at(9, 1, "old", "new"),
                                 edit_at(1, 99, "old", "new"),
                                 edit_at(0, 0, "old", "new"),
                                 edit_at(1, 2, "ol", "new")}) {
    const EditedText edited = apply_edits("xold\n", "a", {problem});
    EXPECT_EQ(edited.text, "xold\n");
    EXPECT_EQ(edited.diff, "");
  }
  const EditedText twice = apply_edits(
      "old", "a", {edit_at(1, 1, "old", "b"), edit_at(1, 1, "old", "c")});
  EXPECT_EQ(twice.text, "b");
  EXPECT_THAT(twice.diff, HasSubstr("\\ No newline at end of file"));
}

}  // namespace
}  // namespace triax
