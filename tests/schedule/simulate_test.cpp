// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "triax/base/error.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

bool is_near(double a, double b) {
  return std::abs(a - b) < 1e-9;
}

RC_GTEST_PROP(Simulate, BubbleIsThatOfTheFormula, ()) {
  const int p = *rc::gen::inRange(1, 9);
  const int m = *rc::gen::inRange(1, 33);
  const std::string name = *rc::gen::elementOf(schedule_names());
  const Simulation result =
      simulate(make_schedule(name, p, m),
               {.forward_seconds = {1.0}, .backward_seconds = {2.0}});
  RC_ASSERT(is_near(result.makespan_seconds, 3.0 * (m + p - 1)));
  RC_ASSERT(is_near(result.bubble, (p - 1.0) / (m + p - 1.0)));
  for (double busy : result.busy_seconds) {
    RC_ASSERT(is_near(busy, 3.0 * m));
  }
}

// Four stages, two microbatches: 60 % of the step is bubble.
TEST(Simulate, FewerMicrobatchesThanStagesIsMostlyBubble) {
  EXPECT_DOUBLE_EQ(simulate(make_schedule("1f1b", 4, 2), {}).bubble, 0.6);
}

TEST(Simulate, TheSlowestStageSetsThePace) {
  ScheduleCosts costs;
  costs.forward_seconds = {1.0, 5.0, 1.0};
  costs.backward_seconds = {2.0, 10.0, 2.0};
  const Simulation result = simulate(make_schedule("1f1b", 3, 20), costs);
  // One forward of stage 0, stage 1 without a gap, one backward of stage 0.
  EXPECT_DOUBLE_EQ(result.makespan_seconds, 1.0 + 20 * 15.0 + 2.0);
}

TEST(Simulate, TransfersAreOnTheCriticalPath) {
  ScheduleCosts costs;
  costs.transfer_seconds = 0.5;
  for (int depth : {0, 1, 4}) {
    costs.link_depth = depth;
    // One microbatch goes down three stages and back: four messages.
    EXPECT_DOUBLE_EQ(
        simulate(make_schedule("gpipe", 3, 1), costs).makespan_seconds,
        3 * 3.0 + 4 * 0.5);
  }
}

TEST(Simulate, MessagesOfOneDirectionFollowEachOther) {
  ScheduleCosts costs;
  costs.forward_seconds = {0.0, 0.0};
  costs.transfer_seconds = 1.0;
  costs.link_depth = 8;
  EXPECT_DOUBLE_EQ(
      simulate(for_all_ranks(forward_only, 2, 5), costs).makespan_seconds, 5.0);
}

TEST(Simulate, ASendWaitsWhileTheBufferIsFull) {
  ScheduleCosts costs;
  costs.forward_seconds = {1.0, 10.0};
  const auto first_rank_ends = [&](int depth) {
    costs.link_depth = depth;
    return simulate(for_all_ranks(forward_only, 2, 3), costs)
        .spans[0]
        .back()
        .end_seconds;
  };
  // The second rank takes messages at 1, 11 and 21.
  EXPECT_DOUBLE_EQ(first_rank_ends(0), 21.0);
  EXPECT_DOUBLE_EQ(first_rank_ends(1), 11.0);
  EXPECT_DOUBLE_EQ(first_rank_ends(2), 3.0);
}

TEST(Simulate, SpansFollowEachOtherInTheOrderOfTheList) {
  const auto lists = make_schedule("1f1b", 4, 8);
  const Simulation result = simulate(lists, {});
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    double now = 0.0;
    ASSERT_EQ(result.spans[rank].size(), lists[rank].size());
    for (size_t i = 0; i < lists[rank].size(); ++i) {
      const ActionSpan& span = result.spans[rank][i];
      EXPECT_EQ(span.action, lists[rank][i]);
      EXPECT_EQ(span.start_seconds, now);
      EXPECT_GE(span.end_seconds, now);
      now = span.end_seconds;
    }
  }
}

TEST(Simulate, ADeadlockIsAnError) {
  ScheduleCosts costs;
  costs.link_depth = 0;
  EXPECT_THROW(simulate(make_schedule("1f1b", 2, 4), costs), Error);
}

TEST(Simulate, MoreDepthIsNeverSlower) {
  ScheduleCosts costs;
  costs.transfer_seconds = 0.7;
  double before = 1e9;
  for (int depth = 1; depth < 6; ++depth) {
    costs.link_depth = depth;
    const double now =
        simulate(make_schedule("1f1b", 5, 12), costs).makespan_seconds;
    EXPECT_LE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace triax
