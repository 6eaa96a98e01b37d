// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/schedule.h"

#include <gtest/gtest.h>

#include "triax/base/error.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/one_f_one_b.h"

namespace triax {
namespace {

std::string text(const std::vector<Action>& actions) {
  std::string line;
  for (const Action& action : actions) {
    line += (line.empty() ? "" : " ") + to_string(action);
  }
  return line;
}

TEST(Schedule, OneStageHasNoMessages) {
  EXPECT_EQ(text(gpipe(0, 1, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(text(one_f_one_b(0, 1, 2)), "F0 B0 F1 B1");
  EXPECT_EQ(text(forward_only(0, 1, 2)), "F0 F1");
}

TEST(Schedule, GpipeRunsEveryForwardFirst) {
  EXPECT_EQ(text(gpipe(0, 2, 2)), "F0 sA0 F1 sA1 rG0 B0 rG1 B1");
  EXPECT_EQ(text(gpipe(1, 3, 1)), "rA0 F0 sA0 rG0 B0 sG0");
  EXPECT_EQ(text(gpipe(1, 2, 2)), "rA0 F0 rA1 F1 B0 sG0 B1 sG1");
}

TEST(Schedule, OneFOneBWarmsUpByTheStagesThatFollow) {
  EXPECT_EQ(text(one_f_one_b(0, 3, 4)),
            "F0 sA0 F1 sA1 F2 sA2 rG0 B0 F3 sA3 rG1 B1 rG2 B2 rG3 B3");
  EXPECT_EQ(text(one_f_one_b(2, 3, 2)), "rA0 F0 B0 sG0 rA1 F1 B1 sG1");
}

TEST(Schedule, OneFOneBTakesFewerMicrobatchesThanStages) {
  EXPECT_EQ(text(one_f_one_b(0, 4, 2)), "F0 sA0 F1 sA1 rG0 B0 rG1 B1");
}

TEST(Schedule, ForwardOnlyEndsWithTheForwards) {
  EXPECT_EQ(text(forward_only(1, 3, 2)), "rA0 F0 sA0 rA1 F1 sA1");
}

TEST(Schedule, ActionsPrintTheirChunkUnlessItIsZero) {
  EXPECT_EQ(to_string({ActionKind::kForward, 3, 1}), "F3.1");
  EXPECT_EQ(to_string({ActionKind::kSendGradient, 1, 0}), "sG1");
}

TEST(Schedule, NamesAreThoseOfTheTable) {
  EXPECT_EQ(schedule_names(), (std::vector<std::string>{"gpipe", "1f1b"}));
  for (const std::string& name : schedule_names()) {
    EXPECT_EQ(make_schedule(name, 3, 5).size(), 3u);
  }
  EXPECT_EQ(make_schedule("1f1b", 3, 5)[1], one_f_one_b(1, 3, 5));
  EXPECT_EQ(make_schedule("gpipe", 3, 5)[2], gpipe(2, 3, 5));
}

TEST(Schedule, AnUnknownNameOrNoMicrobatchIsAnError) {
  EXPECT_THROW(make_schedule("1f2b", 2, 2), Error);
  EXPECT_THROW(make_schedule("1f1b", 2, 0), Error);
  EXPECT_THROW(make_schedule("1f1b", 0, 2), Error);
}

}  // namespace
}  // namespace triax
