// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/board.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triax/base/error.h"

namespace triax {
namespace {

OpRecord record_of(Board& board,
                   OpKind op,
                   int64_t number,
                   const std::string& group) {
  OpRecord record;
  record.op = op;
  record.number = number;
  record.numel = 16;
  record.name = board.name_id(group);
  record.group = uint64_t(record.name);
  record.site = board.site_id(CallSite::current());
  return record;
}

// The next board often gets the address of the one before.
TEST(Board, KnowsItsOwnCallSitesOnly) {
  const CallSite first = CallSite::current();
  const CallSite second = CallSite::current();
  const auto has_line = [](const CallSite& site) {
    return testing::EndsWith(":" + std::to_string(site.line()));
  };
  for (int round = 0; round < 4; ++round) {
    const auto board = Board::create(1);
    const bool is_even = round % 2 == 0;
    for (const CallSite& site :
         {is_even ? first : second, is_even ? second : first}) {
      EXPECT_THAT(board->site(board->site_id(site)), has_line(site));
    }
  }
}

TEST(Board, DescribesWhatARankIsDoing) {
  const auto board = Board::create(3);
  EXPECT_EQ(board->describe(2), "rank 2: no operation yet");
  board->set_pid(2, 123);
  board->set_coord(2, "dp 0, pp 1, tp 0");
  board->set_step(2, 17);
  board->begin(2,
               record_of(*board, OpKind::kAllReduce, 412, "tp"),
               now_ns() - 5'100'000'000);
  EXPECT_THAT(board->describe(2),
              testing::MatchesRegex(
                  "rank 2 \\(dp 0, pp 1, tp 0; pid 123\\): step 17, in "
                  "all_reduce #412 of group tp at board_test.cpp:[0-9]+ for "
                  "5\\.1. s"));
  board->end(2, now_ns());
  EXPECT_THAT(
      board->describe(2),
      testing::HasSubstr("computing since all_reduce #412 of group tp"));
  board->set_finished(2);
  EXPECT_EQ(board->describe(2),
            "rank 2 (dp 0, pp 1, tp 0; pid 123): step 17, finished");
}

TEST(Board, IsReadThroughItsDescriptorWhileAndAfterARankLives) {
  const auto board = Board::create(2);
  const pid_t child = fork();
  if (child == 0) {
    board->set_pid(1, getpid());
    board->begin(1, record_of(*board, OpKind::kBarrier, 3, "dp"), now_ns());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const auto attached = Board::attach(board->fd());
  EXPECT_EQ(attached->world_size(), 2);
  EXPECT_EQ(attached->pid(1), child);
  EXPECT_THAT(attached->describe(1),
              testing::HasSubstr("in barrier #3 of group dp"));
}

TEST(Board, HasNoNameAndIsForItsOwnerOnly) {
  const auto board = Board::create(1);
  struct stat status {};
  ASSERT_EQ(fstat(board->fd(), &status), 0);
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(fcntl(board->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Board, AttachRefusesWhatIsNotABoard) {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_THROW(Board::attach(null), Error);
  EXPECT_THROW(Board::attach(-1), Error);
  close(null);
}

TEST(Board, TheFirstFailureIsWhatEveryRankThrows) {
  const auto board = Board::create(3);
  EXPECT_EQ(board->first_failed(), std::nullopt);
  board->throw_if_failed();
  board->fail(1, "the disk is full");
  board->fail(1, "later");
  board->fail(0, "because of rank 1");
  EXPECT_EQ(board->first_failed(), 1);
  EXPECT_EQ(board->error(1), "the disk is full");
  EXPECT_EQ(board->error(0), "because of rank 1");
  EXPECT_EQ(board->error(2), std::nullopt);
  EXPECT_EQ(board->describe(1), "rank 1: failed: the disk is full");
  try {
    board->throw_if_failed();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the disk is full");
  }
}

TEST(Board, ALongTextIsCutNotLost) {
  const auto board = Board::create(1);
  board->fail(0, std::string(10'000, 'x'));
  EXPECT_EQ(board->error(0)->size(), 4000u);
}

TEST(Board, NamesAndSitesKeepTheirIdsAndRunOverGracefully) {
  const auto board = Board::create(1);
  const int32_t tp = board->name_id("tp");
  EXPECT_EQ(board->name(board->name_id("dp")), "dp");
  EXPECT_EQ(board->name_id("tp"), tp);
  for (int i = 0; i < 300; ++i) {
    board->name_id("group" + std::to_string(i));
  }
  EXPECT_EQ(board->name(board->name_id("one more")), "other");
  EXPECT_EQ(board->name(tp), "tp");
}

class Diagnosis : public testing::Test {
 protected:
  /// The rank stands in an operation and waits for `peer` to issue.
  void wait_for(int rank, int peer, const std::string& group) {
    board->begin(rank, record_of(*board, OpKind::kBarrier, rank, group), 0);
    board->set_waits_for(rank, peer, counters + uint64_t(rank), 1);
  }

  const std::shared_ptr<Board> board = Board::create(4);
  const uint64_t counters = board->add_counters(4);
};

TEST_F(Diagnosis, ACircleOfGroupsIsNamed) {
  wait_for(0, 1, "a");
  EXPECT_EQ(board->diagnose(), std::nullopt);
  wait_for(1, 2, "b");
  EXPECT_EQ(board->diagnose(), std::nullopt);
  wait_for(2, 1, "c");
  EXPECT_THAT(
      board->diagnose().value_or(""),
      testing::MatchesRegex(
          "ranks wait for each other in a circle: rank 1 waits in barrier #1 "
          "of group b at board_test.cpp:[0-9]+ for rank 2, rank 2 waits in "
          "barrier #2 of group c at board_test.cpp:[0-9]+ for rank 1"));
}

TEST_F(Diagnosis, ARankThatOnlyHasNotWokenUpYetIsNotStuck) {
  wait_for(0, 1, "a");
  wait_for(1, 0, "b");
  EXPECT_TRUE(board->diagnose().has_value());
  board->counter(counters + 1).store(1);  // what rank 1 waits for has come
  EXPECT_EQ(board->diagnose(), std::nullopt);
}

TEST_F(Diagnosis, WhatARankWaitedForBeforeDoesNotCount) {
  wait_for(0, 1, "a");
  wait_for(1, 0, "b");
  board->end(1, now_ns());
  EXPECT_EQ(board->diagnose(), std::nullopt);
  board->begin(1, record_of(*board, OpKind::kBarrier, 9, "b"), 0);
  EXPECT_EQ(board->diagnose(), std::nullopt);
}

TEST_F(Diagnosis, ARankThatFinishedAloneIsNamed) {
  board->begin(3, record_of(*board, OpKind::kBarrier, 1, "a"), 0);
  board->end(3, 0);
  wait_for(0, 3, "a");
  EXPECT_EQ(board->diagnose(), std::nullopt);
  board->set_finished(3);
  EXPECT_THAT(board->diagnose().value_or(""),
              testing::HasSubstr("for rank 3, which has finished"));
  board->fail(3, "no, it failed");
  EXPECT_EQ(board->diagnose(), std::nullopt);
}

TEST_F(Diagnosis, DifferentCallsOfOneNumberAreNamed) {
  OpRecord record = record_of(*board, OpKind::kAllReduce, 5, "a");
  board->begin(0, record, 0);
  board->begin(1, record, 0);
  EXPECT_EQ(board->diagnose(), std::nullopt);
  record.numel = 17;
  board->begin(2, record, 0);
  EXPECT_THAT(board->diagnose().value_or(""),
              testing::AllOf(testing::HasSubstr("all_reduce(sum, 16 fp32) #5"),
                             testing::HasSubstr("all_reduce(sum, 17 fp32) #5"),
                             testing::HasSubstr("rank 0"),
                             testing::HasSubstr("rank 2")));
}

}  // namespace
}  // namespace triax
