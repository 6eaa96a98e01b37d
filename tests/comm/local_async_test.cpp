// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "tests/comm/elements.h"
#include "tests/comm/ranks.h"
#include "triax/comm/local.h"
#include "triax/comm/recorder.h"

namespace triax {
namespace {

TEST(LocalAsync, StartedOperationsGiveTheSameBits) {
  for (RankKind kind : rank_kinds()) {
    for (int size : {2, 3, 5}) {
      const auto outcome = run_ranks(kind, size, [](Group& group) {
        const int64_t numel = 90'000 * group.size();
        Elements one = samples(DType::kFloat32, numel, group.rank(), 1);
        Elements two = samples(DType::kBfloat16, 1000, group.rank(), 2);
        Elements one_expected = one;
        Elements two_expected = two;
        group.all_reduce(one_expected.buffer());
        group.all_reduce(two_expected.buffer(), ReduceOp::kMax);
        Elements gathered(DType::kFloat32, numel);
        const Buffer mine = gathered.part(group.rank() * 90'000, 90'000);
        Work first = group.reduce_scatter_async(one.buffer(), mine);
        Work second = group.all_reduce_async(two.buffer(), ReduceOp::kMax);
        Work third = group.all_gather_async(mine, gathered.buffer());
        third.wait();
        require(first.is_done() && second.is_done(), "in the order started");
        require(gathered == one_expected, "reduce_scatter, all_gather");
        require(two == two_expected, "all_reduce");
        Work last = group.broadcast_async(one.buffer(), 1);
        last.wait();
        last.wait();
        require(one == samples(DType::kFloat32, numel, 1, 1), "broadcast");
      });
      EXPECT_EQ(outcome, Outcome(size_t(size)));
    }
  }
}

TEST(LocalAsync, ABlockingCallComesAfterWhatWasStarted) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    std::vector<double> data(200'000, 1.0);
    const Buffer buffer{data.data(), 200'000, DType::kFloat64};
    Work work = group.all_reduce_async(buffer);
    group.all_reduce(buffer);
    require(work.is_done(), "the first is done");
    require(data[0] == 4.0 && data[199'999] == 4.0, "one after the other");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

/// Seconds of a core that this thread has had.
double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

/// Arithmetic for that long on a core of this thread's own, or until `is_over`,
/// without a call to the group.
template <class IsOver>
void compute(double seconds, IsOver&& is_over) {
  volatile double sum = 0.0;
  const double end = thread_seconds() + seconds;
  while (thread_seconds() < end && !is_over()) {
    for (int i = 0; i < 10'000; ++i) {
      sum = sum + 1.0 / (1.0 + i);
    }
  }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsInstrumented = true;  // adding up takes many times as long
#else
constexpr bool kIsInstrumented = false;
#endif

/// How often this rank's thread stood still for a message.
int num_waits(const Recorder& recorder) {
  const std::vector<Event> events = recorder.events();
  return int(
      std::count_if(events.begin(), events.end(), [](const Event& event) {
        return event.kind == EventKind::kWait;
      }));
}

// 64 MiB take a tenth of the 0.3 s on an idle machine. Time is the rank's own,
// and one try of five is enough, so that other processes spoil nothing:
// progress that does not get a core beside two ranks needs over a second of it.
TEST(LocalAsync, ProgressIsMadeWhileTheRankComputes) {
  for (RankKind kind : rank_kinds()) {
    const auto world = make_local_world(2);
    const auto outcome = run_ranks(kind, *world, [&](Group& group) {
      const Recorder recorder(world->board(), group.rank());
      const int64_t numel = 16 << 20;  // 64 MiB
      std::vector<float> data(size_t(numel), 1.0f);
      bool is_in_time = false;  // on both ranks
      for (int attempt = 1; attempt <= 5 && !is_in_time; ++attempt) {
        group.barrier();
        const int waits_before = num_waits(recorder);
        Work work = group.all_reduce_async({data.data(), numel});
        compute(0.3, [] { return false; });
        float num_in_time = work.is_done() ? 1.0f : 0.0f;
        compute(30.0, [&] { return work.is_done(); });
        require(work.is_done(), "done without a wait");
        const auto sum = static_cast<float>(1 << attempt);
        require(data[0] == sum && data[size_t(numel) - 1] == sum, "sum");
        work.wait();
        require(num_waits(recorder) == waits_before, "nothing is exposed");
        group.all_reduce({&num_in_time, 1});
        is_in_time = num_in_time == 2.0f;
      }
      require(is_in_time || kIsInstrumented, "there after 0.3 s");
    });
    EXPECT_EQ(outcome, Outcome(2));
  }
}

TEST(LocalAsync, ALargeSendWithoutAReceiverBlocksNothingElse) {
  const auto outcome = run_ranks(RankKind::kThreads, 3, [](Group& group) {
    const int64_t numel = 2 << 20;
    std::vector<float> large(size_t(numel), float(group.rank()));
    std::vector<float> taken(size_t(numel), 0.0f);
    const int to = (group.rank() + 1) % 3;
    const int from = (group.rank() + 2) % 3;
    Work work = group.send_async({large.data(), numel}, to);
    // The other direction, and a collective, both asynchronous and not.
    float small = float(group.rank());
    float got = -1.0f;
    Work back = group.send_async({&small, 1}, from);
    group.recv({&got, 1}, to);
    require(got == float(to), "the other direction");
    group.all_reduce({&small, 1});
    require(small == 3.0f, "a collective");
    require(!work.is_done(), "larger than what is buffered");
    group.barrier();  // until then nobody receives
    group.recv({taken.data(), numel}, from);
    work.wait();
    require(taken[size_t(numel) - 1] == float(from), "arrived");
  });
  EXPECT_EQ(outcome, Outcome(3));
}

TEST(LocalAsync, SmallMessagesNeedNoReceiver) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    for (int i = 0; i < 100; ++i) {
      int64_t value = i;
      group.send({&value, 1, DType::kInt64}, 1 - group.rank());
    }
    for (int i = 0; i < 100; ++i) {
      int64_t value = -1;
      group.recv({&value, 1, DType::kInt64}, 1 - group.rank());
      require(value == i, "in the order sent");
    }
  });
  EXPECT_EQ(outcome, Outcome(2));
}

TEST(LocalAsync, AWorkMayBeMovedAndOutliveItsGroup) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& world) {
    std::vector<float> data(500'000, 1.0f);
    Work work;
    {
      const auto group = world.split(0, 0, "dp");
      work = group->all_reduce_async({data.data(), 500'000});
    }
    Work moved = std::move(work);
    moved.wait();
    require(data[499'999] == 2.0f, "sum");
  });
  EXPECT_EQ(outcome, Outcome(2));
}

/// One random operation that every rank draws alike.
class RandomOps {
 public:
  RandomOps(Group& world, uint64_t seed) : world_(world), random_(seed) {
    rows_ = world.split(world.rank() / 2, 0, "row");
    columns_ = world.split(world.rank() % 2, 0, "column");
  }

  void run(int num_ops) {
    for (int i = 0; i < num_ops; ++i) {
      step(uint64_t(i));
      while (under_way_.size() > 6) {
        finish_first();
      }
    }
    while (!under_way_.empty()) {
      finish_first();
    }
  }

 private:
  struct UnderWay {
    Elements data;
    Elements expected;
    Work work;
  };

  void finish_first() {
    under_way_.front().work.wait();
    require(under_way_.front().data == under_way_.front().expected, "result");
    under_way_.pop_front();
  }

  Elements reduced(
      Group& group, DType dtype, int64_t numel, uint64_t salt, ReduceOp op) {
    std::vector<Elements> inputs;
    for (int other = 0; other < group.size(); ++other) {
      inputs.push_back(samples(dtype, numel, group.world_rank(other), salt));
    }
    return reference_reduce(inputs, op);
  }

  void step(uint64_t salt) {
    const uint64_t draw = random_();
    Group& group = draw % 3 == 0 ? world_ : draw % 3 == 1 ? *rows_ : *columns_;
    const DType dtype = kAllDTypes[(draw >> 8) % 5];
    const ReduceOp op = kAllReduceOps[(draw >> 12) % 3];
    const int64_t numel =
        (draw >> 16) % 400 == 0 ? 150'000 : int64_t((draw >> 20) % 300);
    const bool is_async = (draw >> 32) % 2 == 0;
    Elements data = samples(dtype, numel, world_.rank(), salt);
    if ((draw >> 36) % 3 != 0) {
      Elements expected = reduced(group, dtype, numel, salt, op);
      UnderWay& slot = under_way_.emplace_back(
          UnderWay{std::move(data), std::move(expected), Work()});
      if (is_async) {
        slot.work = group.all_reduce_async(slot.data.buffer(), op);
      } else {
        group.all_reduce(slot.data.buffer(), op);
      }
    } else {
      const int to = (group.rank() + 1) % group.size();
      const int from = (group.rank() + group.size() - 1) % group.size();
      const int sender = group.world_rank(from);
      Elements sent = data;
      UnderWay& slot = under_way_.emplace_back(UnderWay{
          Elements(dtype, numel), samples(dtype, numel, sender, salt), Work()});
      Work work = group.send_async(sent.buffer(), to);
      slot.work = group.recv_async(slot.data.buffer(), from);
      if (!is_async) {
        slot.work.wait();
      }
      work.wait();
    }
  }

  Group& world_;
  std::mt19937_64 random_;
  std::unique_ptr<Group> rows_;
  std::unique_ptr<Group> columns_;
  std::deque<UnderWay> under_way_;
};

TEST(LocalAsync, TenThousandRandomOperationsGiveTheReference) {
  for (RankKind kind : rank_kinds()) {
    const auto outcome = run_ranks(
        kind, 4, [](Group& world) { RandomOps(world, 11).run(10'000); });
    EXPECT_EQ(outcome, Outcome(4));
  }
}

RC_GTEST_PROP(LocalAsyncProperty, RandomOperationsOfAnySeed, ()) {
  const auto seed = *rc::gen::arbitrary<uint64_t>();
  const auto outcome = run_ranks(RankKind::kThreads, 4, [&](Group& world) {
    RandomOps(world, seed).run(40);
  });
  RC_ASSERT(outcome == Outcome(4));
}

}  // namespace
}  // namespace triax
