// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/emulation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/comm/elements.h"
#include "tests/comm/ranks.h"

namespace triax {
namespace {

constexpr LinkEmulation kLink{.latency_seconds = 1e-3, .bytes_per_second = 1e6};

TEST(Emulation, CostsFollowTheRingFormulas) {
  const auto seconds = [](OpKind op, int size, int64_t bytes) {
    return emulated_seconds(op, size, bytes, kLink);
  };
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduce, 4, 1000), 6e-3 + 1.5e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllGather, 4, 1000), 3e-3 + 0.75e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kReduceScatter, 4, 1000), 3e-3 + 0.75e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllToAll, 4, 1000), 3e-3 + 0.75e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kBroadcast, 4, 1000), 3e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kSend, 4, 1000), 1e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kReceive, 4, 1000), 1e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kBarrier, 4, 0), 6e-3);
  EXPECT_DOUBLE_EQ(seconds(OpKind::kAllReduce, 1, 1000), 0.0);
}

TEST(Emulation, NoBandwidthMeansNoLimit) {
  const LinkEmulation link{.latency_seconds = 1e-3};
  EXPECT_DOUBLE_EQ(emulated_seconds(OpKind::kSend, 2, 1 << 30, link), 1e-3);
  EXPECT_TRUE(link.is_on());
  EXPECT_FALSE(LinkEmulation{}.is_on());
}

TEST(LinkQueue, TransfersFollowEachOther) {
  LinkQueue queue;
  queue.set(kLink);
  EXPECT_EQ(queue.reserve(100, 10), 110);
  EXPECT_EQ(queue.reserve(105, 10), 120);
  EXPECT_EQ(queue.reserve(500, 10), 510);
  queue.occupy(400);
  EXPECT_EQ(queue.start_ns(0), 510);
  queue.occupy(600);
  EXPECT_EQ(queue.start_ns(0), 600);
  EXPECT_EQ(queue.start_ns(700), 700);
}

TEST(LinkQueue, JitterIsTheSameForTheSameSeed) {
  LinkEmulation link = kLink;
  link.jitter = 0.5;
  LinkQueue a;
  LinkQueue b;
  LinkQueue other;
  a.set(link);
  b.set(link);
  link.seed = 9;
  other.set(link);
  bool differs = false;
  for (int64_t number = 0; number < 50; ++number) {
    const int64_t cost = a.cost_ns(OpKind::kSend, 2, 1000, number);
    EXPECT_EQ(cost, b.cost_ns(OpKind::kSend, 2, 1000, number));
    EXPECT_GE(cost, 2'000'000);
    EXPECT_LT(cost, 3'000'000);
    differs |= cost != other.cost_ns(OpKind::kSend, 2, 1000, number);
  }
  EXPECT_TRUE(differs);
}

TEST(Emulation, AnOperationEndsNoEarlierThanOnTheLink) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    group.emulate({.latency_seconds = 0.01, .bytes_per_second = 1e6});
    Elements data = samples(DType::kFloat32, 5000, group.rank(), 1);
    const auto start = std::chrono::steady_clock::now();
    group.all_reduce(data.buffer());  // 2 * 0.01 + 20000 / 1e6
    require(seconds_since(start) >= 0.04, "all_reduce takes 40 ms");
    const auto next = std::chrono::steady_clock::now();
    group.rank() == 0 ? group.send(data.buffer(), 1)
                      : group.recv(data.buffer(), 0);
    // The receiver may have come a little later than the sender.
    require(seconds_since(next) >= 0.025, "a message takes 30 ms");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

TEST(Emulation, AGroupSplitOffHasTheSameLink) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    group.emulate({.latency_seconds = 0.05});
    const auto after = group.split(0, group.rank(), "after");
    group.barrier();
    const auto start = std::chrono::steady_clock::now();
    after->barrier();  // 2 * 0.05
    require(seconds_since(start) >= 0.1, "a barrier takes 100 ms");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

TEST(Emulation, OverlappingTransfersQueueAndRunBesideCompute) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    group.emulate({.latency_seconds = 0.1});
    float first = 1.0f;
    float second = 2.0f;
    group.barrier();  // 0.2 s
    const auto start = std::chrono::steady_clock::now();
    Work one = group.all_reduce_async({&first, 1});
    Work two = group.all_reduce_async({&second, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(390));
    one.wait();
    require(seconds_since(start) >= 0.2, "the first takes 0.2 s");
    two.wait();
    require(seconds_since(start) >= 0.4, "the second comes after it");
    require(first == 2.0f && second == 4.0f, "sums");
    const auto messages = std::chrono::steady_clock::now();
    Work sends[2];
    Work receives[2];
    for (int i : {0, 1}) {
      sends[i] = group.send_async({&first, 1}, 1 - group.rank());
      receives[i] =
          group.recv_async({i == 0 ? &second : &first, 1}, 1 - group.rank());
    }
    sends[1].wait();
    require(seconds_since(messages) >= 0.2, "messages follow each other");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

TEST(Emulation, ComputeHidesATransfer) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    group.emulate({.latency_seconds = 0.15});
    float value = 1.0f;
    group.barrier();
    Work work = group.all_reduce_async({&value, 1});  // 0.3 s
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    const auto start = std::chrono::steady_clock::now();
    work.wait();
    require(seconds_since(start) < 0.25, "hidden behind 0.6 s of compute");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

}  // namespace
}  // namespace triax
