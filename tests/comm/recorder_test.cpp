// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/recorder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/comm/ranks.h"

namespace triax {
namespace {

TEST(Recorder, KeepsWhatASpanWasTold) {
  const auto board = Board::create(2);
  board->set_step(1, 7);
  Recorder recorder(board, 1);
  {
    const auto span = recorder.span(EventKind::kForward,
                                    {.microbatch = 3, .stage = 2, .bytes = 99});
    EXPECT_EQ(recorder.last_event()->end_ns, 0);
  }
  ASSERT_EQ(recorder.num_events(), 1u);
  const Event event = recorder.events().at(0);
  EXPECT_EQ(event.step, 7);
  EXPECT_EQ(event.kind, EventKind::kForward);
  EXPECT_EQ(event.microbatch, 3);
  EXPECT_EQ(event.stage, 2);
  EXPECT_EQ(event.bytes, 99);
  EXPECT_GT(event.start_ns, 0);
  EXPECT_GE(event.end_ns, event.start_ns);
  EXPECT_EQ(Recorder(board, 0).last_event(), std::nullopt);
}

TEST(Recorder, KeepsTheLastEventsOnly) {
  const auto board = Board::create(1);
  Recorder recorder(board, 0);
  auto outlived = recorder.span(EventKind::kOther);
  for (uint64_t i = 0; i < kEventCapacity + 5; ++i) {
    recorder.add(EventKind::kData, {.bytes = int64_t(i)}, 1, 2);
  }
  outlived.end();  // must not touch the event that took its place
  const std::vector<Event> events = recorder.events();
  ASSERT_EQ(events.size(), kEventCapacity);
  EXPECT_EQ(events.front().bytes, 5);
  for (const Event& event : events) {
    EXPECT_EQ(event.end_ns, 2);
  }
  Event event;
  EXPECT_FALSE(recorder.read(0, event));
}

TEST(Recorder, SumsSecondsOfTheLastSteps) {
  const auto board = Board::create(1);
  Recorder recorder(board, 0);
  for (int64_t step = 0; step < 5; ++step) {
    board->set_step(0, step);
    recorder.add(EventKind::kForward, {}, 0, 1'000'000'000 * (step + 1));
    recorder.add(EventKind::kWait, {}, 0, 500'000'000);
  }
  const auto seconds = recorder.seconds_by_kind(2);
  EXPECT_DOUBLE_EQ(seconds[size_t(EventKind::kForward)], 9.0);
  EXPECT_DOUBLE_EQ(seconds[size_t(EventKind::kWait)], 1.0);
  EXPECT_DOUBLE_EQ(seconds[size_t(EventKind::kData)], 0.0);
}

TEST(Recorder, TellsWhatAKilledRankWasIn) {
  const auto board = Board::create(1);
  const pid_t child = fork();
  if (child == 0) {
    Recorder recorder(board, 0);
    recorder.add(EventKind::kData, {}, 1, 2);
    const auto span = recorder.span(EventKind::kBackward, {.microbatch = 4});
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const auto event = Recorder(Board::attach(board->fd()), 0).last_event();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, EventKind::kBackward);
  EXPECT_EQ(event->microbatch, 4);
  EXPECT_EQ(event->end_ns, 0);
}

TEST(Recorder, GroupsRecordTheirOperationsAndWhatIsExposed) {
  const auto world = make_local_world(2);
  const auto outcome = run_threads(*world, [](Group& group) {
    float value = 1.0f;
    group.all_reduce({&value, 1});
    Work work = group.all_reduce_async({&value, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    work.wait();
    group.rank() == 0 ? group.send({&value, 1}, 1) : group.recv({&value, 1}, 0);
  });
  ASSERT_EQ(outcome, Outcome(2));
  const std::vector<Event> events = Recorder(world->board(), 0).events();
  std::array<int, kNumEventKinds> count{};
  for (const Event& event : events) {
    ++count[size_t(event.kind)];
    EXPECT_EQ(world->board()->name(event.group), "world");
    EXPECT_GT(event.end_ns, 0);
    EXPECT_TRUE(event.kind == EventKind::kWait || event.bytes == 4);
  }
  EXPECT_EQ(count[size_t(EventKind::kCollective)], 2);
  EXPECT_EQ(count[size_t(EventKind::kSend)], 1);
  EXPECT_GE(count[size_t(EventKind::kWait)], 2);  // 3 unless it was all hidden
}

TEST(Recorder, EveryKindHasAName) {
  EXPECT_EQ(event_kind_name(EventKind::kWait), "wait");
  EXPECT_EQ(event_kind_name(EventKind::kOther), "other");
}

}  // namespace
}  // namespace triax
