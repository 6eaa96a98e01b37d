// SPDX-License-Identifier: Apache-2.0
#include "triax/train/time_shares.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/run_ranks.h"

namespace triax {
namespace {

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

constexpr int64_t kMs = 1'000'000;

// Events that are told, not lived. The window is longer than what the test sees
// from inside, and shorter than what it sees from outside.
TEST(TimeAccount, TellsComputeFromWaitsInsideAndBeside) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const std::shared_ptr<Board> board = Board::create(1);
    Recorder recorder(board, 0);
    DeviceMesh mesh(ParallelDims{}, std::move(world));
    const int64_t outside = now_ns();
    TimeAccount account(*board, recorder);
    const int64_t start = now_ns();
    const int32_t pp = board->name_id("pp");
    const int32_t tp = board->name_id("tp");
    recorder.add(EventKind::kForward, {}, start, start + 10 * kMs);
    recorder.add(
        EventKind::kWait, {.group = tp}, start + 2 * kMs, start + 6 * kMs);
    recorder.add(
        EventKind::kWait, {.group = pp}, start + 10 * kMs, start + 15 * kMs);
    recorder.add(EventKind::kOptimizer, {}, start + 15 * kMs, start + 16 * kMs);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double least_ms = static_cast<double>(now_ns() - start) / kMs;
    const TimeShares shares = account.take(mesh);
    const double most_ms = static_cast<double>(now_ns() - outside) / kMs;
    EXPECT_LE(shares.compute * least_ms, 6 + 1e-9);
    EXPECT_GE(shares.compute * most_ms, 6 - 1e-9);
    EXPECT_NEAR(shares.exposed_comm / shares.compute, 4.0 / 6, 1e-9);
    EXPECT_NEAR(shares.bubble / shares.compute, 5.0 / 6, 1e-9);
    EXPECT_NEAR(shares.optimizer / shares.compute, 1.0 / 6, 1e-9);
    EXPECT_NEAR(shares.compute + shares.exposed_comm + shares.bubble +
                    shares.data + shares.optimizer + shares.other,
                1.0,
                1e-9);
    // What was told is not told again.
    EXPECT_EQ(account.take(mesh).compute, 0.0);
  });
}

/// Spans of a second each, without a gap, the last one until now.
void record(Recorder& recorder, EventKind kind, int64_t count) {
  constexpr int64_t kSecond = 1000 * kMs;
  const int64_t now = now_ns();
  for (int64_t i = count; i > 0; --i) {
    recorder.add(kind, {}, now - i * kSecond, now - (i - 1) * kSecond);
  }
}

TEST(TimeAccount, AddsUpMoreEventsThanTheRecorderKeeps) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const std::shared_ptr<Board> board = Board::create(1);
    Recorder recorder(board, 0);
    DeviceMesh mesh(ParallelDims{}, std::move(world));
    TimeAccount account(*board, recorder);
    for (int step = 0; step < 6; ++step) {
      record(recorder,
             step < 3 ? EventKind::kForward : EventKind::kOptimizer,
             kEventCapacity / 2);
      account.add();
    }
    const TimeShares shares = account.take(mesh);
    EXPECT_GT(shares.optimizer, 0.0);
    EXPECT_NEAR(shares.compute / shares.optimizer, 1.0, 1e-9);
  });
}

// 8,192 seconds are on record: a busy machine adds none that could be seen.
TEST(TimeAccount, LeavesOutTimeWhoseEventsAreGone) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const std::shared_ptr<Board> board = Board::create(1);
    Recorder recorder(board, 0);
    DeviceMesh mesh(ParallelDims{}, std::move(world));
    TimeAccount account(*board, recorder);
    record(recorder, EventKind::kForward, 3 * kEventCapacity);
    const TimeShares shares = account.take(mesh);
    EXPECT_NEAR(shares.compute, 1.0, 0.05);
    EXPECT_NEAR(shares.other, 0.0, 0.05);
  });
}

}  // namespace
}  // namespace triax
