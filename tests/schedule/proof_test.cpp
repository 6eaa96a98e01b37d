// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "triax/base/error.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

using testing::HasSubstr;
using Lists = std::vector<std::vector<Action>>;

/// What the proof says against these lists; "" when it holds.
std::string objection(const Lists& lists, int num_microbatches) {
  try {
    prove_schedule(lists, num_microbatches);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string objection(const Lists& lists, int num_microbatches, int depth) {
  try {
    prove_schedule(lists, num_microbatches, depth);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

size_t index_of(const std::vector<Action>& list, const Action& action) {
  return std::find(list.begin(), list.end(), action) - list.begin();
}

RC_GTEST_PROP(Proof, GpipeHoldsEveryMicrobatch, ()) {
  const int p = *rc::gen::inRange(1, 9);
  const int m = *rc::gen::inRange(1, 33);
  const ScheduleProof proof = prove_schedule(make_schedule("gpipe", p, m), m);
  RC_ASSERT(proof.peak_live_microbatches == std::vector<int>(p, m));
  RC_ASSERT(proof.num_chunks == 1);
  RC_ASSERT(!proof.is_forward_only);
  // All activations flow before any gradient: rendezvous is enough.
  RC_ASSERT(proof.least_link_depth == 0);
}

RC_GTEST_PROP(Proof, OneFOneBHoldsTheStagesThatAreLeft, ()) {
  const int p = *rc::gen::inRange(1, 9);
  const int m = *rc::gen::inRange(1, 33);
  const ScheduleProof proof =
      prove_schedule(make_schedule("1f1b", p, m), m, /*link_depth=*/1);
  for (int i = 0; i < p; ++i) {
    RC_ASSERT(proof.peak_live_microbatches[i] == std::min(m, p - i));
  }
  RC_ASSERT(proof.least_link_depth <= 1);
}

RC_GTEST_PROP(Proof, ForwardOnlyKeepsNothing, ()) {
  const int p = *rc::gen::inRange(1, 9);
  const int m = *rc::gen::inRange(1, 33);
  const ScheduleProof proof =
      prove_schedule(for_all_ranks(forward_only, p, m), m);
  RC_ASSERT(proof.is_forward_only);
  RC_ASSERT(proof.peak_live_microbatches == std::vector<int>(p, 1));
  RC_ASSERT(proof.least_link_depth == 0);
}

TEST(Proof, OneFOneBWithRendezvousSendsDeadlocks) {
  const Lists lists = make_schedule("1f1b", 2, 4);
  EXPECT_EQ(prove_schedule(lists, 4).least_link_depth, 1);
  EXPECT_EQ(objection(lists, 4, 1), "");
  EXPECT_EQ(objection(lists, 4, 0),
            "with 0 messages buffered per direction of a link (the least is "
            "1), ranks wait for ever: rank 0 waits in sA1 (action 3) for rank "
            "1; rank 1 waits in sG0 (action 3) for rank 0");
}

TEST(Proof, ADroppedMicrobatchIsFound) {
  Lists lists = make_schedule("1f1b", 3, 4);
  std::erase_if(lists[1], [](const Action& a) { return a.microbatch == 3; });
  EXPECT_EQ(objection(lists, 4), "rank 1 never does F3");
  EXPECT_EQ(objection(make_schedule("gpipe", 2, 3), 4), "rank 0 never does F3");
}

TEST(Proof, AMissingActionIsFound) {
  const auto without = [](ActionKind kind, int rank) {
    Lists lists = make_schedule("1f1b", 3, 4);
    lists[rank].erase(lists[rank].begin() +
                      index_of(lists[rank], {kind, 2, 0}));
    return objection(lists, 4);
  };
  EXPECT_THAT(without(ActionKind::kReceiveActivation, 1),
              testing::EndsWith("(F2): rA2 must come before it"));
  EXPECT_THAT(without(ActionKind::kForward, 1), HasSubstr("(sA2): F2 must"));
  EXPECT_THAT(without(ActionKind::kForward, 2), HasSubstr("(B2): F2 must"));
  EXPECT_EQ(without(ActionKind::kSendActivation, 1), "rank 1 never does sA2");
  EXPECT_THAT(without(ActionKind::kReceiveGradient, 1),
              HasSubstr("rank 1, action 18 (B2): rG2 must"));
  EXPECT_THAT(without(ActionKind::kBackward, 1), HasSubstr("(sG2): B2 must"));
  EXPECT_EQ(without(ActionKind::kBackward, 0), "rank 0 never does B2");
  EXPECT_EQ(without(ActionKind::kSendGradient, 2), "rank 2 never does sG2");
}

TEST(Proof, AnActionDoneTwiceOrNotOfTheStageIsFound) {
  Lists lists = make_schedule("1f1b", 2, 2);
  lists[1].push_back({ActionKind::kBackward, 1, 0});
  EXPECT_THAT(objection(lists, 2), HasSubstr("(B1): it was done before"));
  lists = make_schedule("1f1b", 2, 2);
  lists[0].push_back({ActionKind::kSendGradient, 0, 0});
  EXPECT_THAT(objection(lists, 2), HasSubstr("(sG0): there is no stage"));
  lists[0].back() = {ActionKind::kForward, 2, 0};
  EXPECT_THAT(objection(lists, 2), HasSubstr("there is no such microbatch"));
}

TEST(Proof, SwappedForwardsAreFoundAtTheReceive) {
  Lists lists = make_schedule("gpipe", 2, 2);
  lists[0] = {
      {ActionKind::kForward, 1, 0},
      {ActionKind::kSendActivation, 1, 0},
      {ActionKind::kForward, 0, 0},
      {ActionKind::kSendActivation, 0, 0},
      {ActionKind::kReceiveGradient, 0, 0},
      {ActionKind::kBackward, 0, 0},
      {ActionKind::kReceiveGradient, 1, 0},
      {ActionKind::kBackward, 1, 0},
  };
  EXPECT_EQ(objection(lists, 2),
            "rank 1, action 0 (rA0) meets sA1 of rank 0: receives must stand "
            "in the order of the sends");
}

TEST(Proof, AWaitInACircleIsFoundAtAnyDepth) {
  // Rank 0 wants the gradient of microbatch 0 before it sends microbatch 1,
  // and rank 1 wants both activations first.
  Lists lists = make_schedule("gpipe", 2, 2);
  lists[0] = {
      {ActionKind::kForward, 0, 0},
      {ActionKind::kSendActivation, 0, 0},
      {ActionKind::kReceiveGradient, 0, 0},
      {ActionKind::kBackward, 0, 0},
      {ActionKind::kForward, 1, 0},
      {ActionKind::kSendActivation, 1, 0},
      {ActionKind::kReceiveGradient, 1, 0},
      {ActionKind::kBackward, 1, 0},
  };
  EXPECT_EQ(objection(lists, 2),
            "however many messages a link buffers, ranks wait for ever: rank "
            "0 waits in rG0 (action 2) for rank 1; rank 1 waits in rA1 "
            "(action 2) for rank 0");
}

/// Forwards of all microbatches on the first stage before any send needs as
/// many buffers as the sends that stand together.
TEST(Proof, LeastDepthCountsTheMessagesThatStandTogether) {
  Lists lists(2);
  for (int i = 0; i < 3; ++i) {
    lists[0].push_back({ActionKind::kForward, i, 0});
    lists[0].push_back({ActionKind::kSendActivation, i, 0});
  }
  for (int i = 0; i < 3; ++i) {
    lists[0].push_back({ActionKind::kReceiveGradient, i, 0});
    lists[0].push_back({ActionKind::kBackward, i, 0});
  }
  // The last stage takes an activation only after it sent a gradient.
  for (int i = 0; i < 3; ++i) {
    lists[1].push_back({ActionKind::kReceiveActivation, i, 0});
    lists[1].push_back({ActionKind::kForward, i, 0});
    lists[1].push_back({ActionKind::kBackward, i, 0});
    lists[1].push_back({ActionKind::kSendGradient, i, 0});
  }
  EXPECT_EQ(prove_schedule(lists, 3).least_link_depth, 1);
  EXPECT_NE(objection(lists, 3, 0), "");
}

/// Virtual stages: two ranks, two chunks, one microbatch.
TEST(Proof, ChunksStandOnTheRanksInTurn) {
  const Lists lists = {
      {{ActionKind::kForward, 0, 0},
       {ActionKind::kSendActivation, 0, 0},
       {ActionKind::kReceiveActivation, 0, 1},
       {ActionKind::kForward, 0, 1},
       {ActionKind::kSendActivation, 0, 1},
       {ActionKind::kReceiveGradient, 0, 1},
       {ActionKind::kBackward, 0, 1},
       {ActionKind::kSendGradient, 0, 1},
       {ActionKind::kReceiveGradient, 0, 0},
       {ActionKind::kBackward, 0, 0}},
      {{ActionKind::kReceiveActivation, 0, 0},
       {ActionKind::kForward, 0, 0},
       {ActionKind::kSendActivation, 0, 0},
       {ActionKind::kReceiveActivation, 0, 1},
       {ActionKind::kForward, 0, 1},
       {ActionKind::kBackward, 0, 1},
       {ActionKind::kSendGradient, 0, 1},
       {ActionKind::kReceiveGradient, 0, 0},
       {ActionKind::kBackward, 0, 0},
       {ActionKind::kSendGradient, 0, 0}},
  };
  const ScheduleProof proof = prove_schedule(lists, 1);
  EXPECT_EQ(proof.num_chunks, 2);
  EXPECT_EQ(proof.peak_live_microbatches, (std::vector<int>{2, 2}));
}

/// Any single action left out of a proved schedule is noticed.
RC_GTEST_PROP(Proof, EveryActionIsNeeded, ()) {
  const int p = *rc::gen::inRange(2, 6);
  const int m = *rc::gen::inRange(1, 9);
  Lists lists = make_schedule(*rc::gen::elementOf(schedule_names()), p, m);
  const int rank = *rc::gen::inRange(0, p);
  const int at = *rc::gen::inRange<int>(0, lists[rank].size());
  lists[rank].erase(lists[rank].begin() + at);
  RC_ASSERT(objection(lists, m) != "");
}

/// Any two neighbours of one kind exchanged are noticed by someone.
RC_GTEST_PROP(Proof, ExchangedMicrobatchesAreNoticed, ()) {
  const int p = *rc::gen::inRange(2, 6);
  const int m = *rc::gen::inRange(2, 9);
  Lists lists = make_schedule(*rc::gen::elementOf(schedule_names()), p, m);
  const int rank = *rc::gen::inRange(0, p);
  std::vector<size_t> sends;
  for (size_t i = 0; i < lists[rank].size(); ++i) {
    const ActionKind kind = lists[rank][i].kind;
    if (kind ==
        (rank == 0 ? ActionKind::kSendActivation : ActionKind::kSendGradient)) {
      sends.push_back(i);
    }
  }
  const size_t first = *rc::gen::inRange<size_t>(0, sends.size() - 1);
  std::swap(lists[rank][sends[first]], lists[rank][sends[first + 1]]);
  RC_ASSERT(objection(lists, m) != "");
}

}  // namespace
}  // namespace triax
