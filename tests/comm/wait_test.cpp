// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace triax {
namespace {

constexpr int64_t kTooLong = 20'000'000'000;  // until it fails

// A message comes in many pieces, and one ring may stand for all of them.
TEST(WaitUntil, NeverSleepsAfterAMove) {
  Bell bell;
  const int64_t until_ns = now_ns() + kTooLong;
  // Idle for long enough that it sleeps, and rung once.
  std::atomic<bool> has_arrived{false};
  int pieces = 0;
  std::thread ringer([&] {
    while (bell.sleepers.load() == 0) {
      std::this_thread::yield();
    }
    has_arrived.store(true);
    ring(bell);
  });
  const bool is_ready = wait_until(bell, until_ns, [&] {
    if (!has_arrived.load()) {
      return Look::kIdle;
    }
    return ++pieces == 5000 ? Look::kReady : Look::kMoved;
  });
  ringer.join();
  EXPECT_TRUE(is_ready);
  EXPECT_EQ(pieces, 5000);
}

TEST(WaitUntil, EndsAtTheTimeThatALookMayLower) {
  Bell bell;
  int64_t until_ns = now_ns() + kTooLong;
  int num_looks = 0;
  EXPECT_FALSE(wait_until(bell, until_ns, [&] {
    if (++num_looks == 10) {
      until_ns = 0;
    }
    return Look::kIdle;
  }));
  EXPECT_GT(num_looks, 10);
}

}  // namespace
}  // namespace triax
