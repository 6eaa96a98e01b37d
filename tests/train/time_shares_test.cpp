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

// Events that are told, not lived: their shares of a window of known length
// can only be too small, since the window also holds the test's own time.
TEST(TimeAccount, TellsComputeFromWaitsInsideAndBeside) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const std::shared_ptr<Board> board = Board::create(1);
    Recorder recorder(board, 0);
    DeviceMesh mesh(ParallelDims{}, std::move(world));
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
    const TimeShares shares = account.take(mesh);
    const double total_ms = static_cast<double>(now_ns() - start) / kMs;
    EXPECT_NEAR(shares.compute * total_ms, 6, 0.3 * 6);
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

}  // namespace
}  // namespace triax
