// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "tests/comm/ranks.h"
#include "triax/comm/local.h"

namespace triax {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

void sleep_ms(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
}

TEST(LocalFailure, TheDeadlineNamesWhoIsMissingAndWhatItDoes) {
  for (RankKind kind : rank_kinds()) {
    const auto world = make_local_world(3, {.deadline_seconds = 0.4});
    const auto outcome = run_ranks(kind, *world, [&](Group& group) {
      world->board()->set_coord(group.rank(), "dp 0");
      world->board()->set_step(group.rank(), 17);
      group.barrier();
      if (group.rank() == 1) {
        sleep_ms(3000);
      }
      group.barrier();
    });
    for (const std::string& text : outcome) {
      EXPECT_THAT(text,
                  AllOf(HasSubstr("in barrier() #1 of group world at "
                                  "local_failure_test.cpp:"),
                        HasSubstr("missing: rank 1 (dp 0; pid "),
                        HasSubstr("step 17, computing since barrier #0")));
      EXPECT_EQ(text.find("missing: rank 0"), std::string::npos);
    }
  }
}

TEST(LocalFailure, TheDeadlineOfAMessageNamesTheSender) {
  const auto world = make_local_world(2, {.deadline_seconds = 0.2});
  const auto outcome = run_threads(*world, [](Group& group) {
    float value = 0.0f;
    if (group.rank() == 0) {
      Work work = group.recv_async({&value, 1}, 1);
      sleep_ms(600);  // no deadline runs while nobody waits
      work.wait();
    } else {
      sleep_ms(2500);
    }
  });
  EXPECT_THAT(outcome[0],
              AllOf(HasSubstr("recv(1 fp32) #0 from rank 1"),
                    HasSubstr("missing: rank 1")));
}

TEST(LocalFailure, ASlowRankIsNoFailure) {
  const auto world = make_local_world(2, {.deadline_seconds = 20});
  const auto outcome = run_threads(*world, [](Group& group) {
    for (int i = 0; i < 3; ++i) {
      if (group.rank() == 1) {
        sleep_ms(700);
      }
      group.barrier();
    }
  });
  EXPECT_EQ(outcome, Outcome(2));
}

TEST(LocalFailure, AnExceptionReachesRanksInEveryKindOfWait) {
  for (RankKind kind : rank_kinds()) {
    const auto outcome = run_ranks(kind, 5, [](Group& group) {
      float value = 0.0f;
      const auto start = std::chrono::steady_clock::now();
      try {
        switch (group.rank()) {
          case 0:
            group.all_reduce({&value, 1});
            break;
          case 1:
            group.recv({&value, 1}, 4);
            break;
          case 2: {
            Work work = group.recv_async({&value, 1}, 4);
            work.wait();
            break;
          }
          case 3:
            sleep_ms(400);
            group.send({&value, 1}, 0);  // the next operation
            break;
          default:
            sleep_ms(200);
            throw Error("the loss of rank 4 is NaN");
        }
      } catch (const Error&) {
        // Half a second after it, where the machine is idle.
        require(seconds_since(start) < 3.0, "told soon");
        throw;
      }
      throw Error("went on");
    });
    for (const std::string& text : outcome) {
      EXPECT_EQ(text, "the loss of rank 4 is NaN");
    }
  }
}

TEST(LocalFailure, DestroyingAnUnfinishedWorkEndsWhenTheWorldFailed) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    if (group.rank() == 0) {
      std::vector<float> data(1 << 20);
      Work work = group.all_reduce_async({data.data(), 1 << 20});
      throw Error("rank 0 gives up");
    }
    group.barrier();
  });
  EXPECT_EQ(outcome[0], "rank 0 gives up");
  EXPECT_NE(outcome[1], "");
}

#if !defined(__SANITIZE_THREAD__)

std::set<std::string> shared_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path().string());
  }
  return names;
}

TEST(LocalFailure, AKilledRankLeavesNothingBehindAndStopsTheOthers) {
  const auto before = shared_names();
  for (int round = 0; round < 10; ++round) {
    const auto outcome = run_ranks(RankKind::kProcesses, 3, [&](Group& group) {
      std::vector<float> data(300'000, 1.0f);
      Work message;
      for (int i = 0;; ++i) {
        if (group.rank() == 1 && i == 5 + round) {
          kill(getpid(), SIGKILL);
        }
        message =
            group.send_async({data.data(), 300'000}, (group.rank() + 1) % 3);
        group.all_reduce({data.data() + 1, 200'000}, ReduceOp::kAvg);
        group.recv({data.data(), 300'000}, (group.rank() + 2) % 3);
        message.wait();
      }
    });
    EXPECT_EQ(outcome[1], "signal 9");
    EXPECT_EQ(outcome[0], "signal 9");  // the text its launcher gave
    EXPECT_EQ(outcome[2], "signal 9");
  }
  for (const std::string& name : shared_names()) {
    EXPECT_TRUE(before.contains(name) || name.find("triax") == name.npos);
  }
}

#endif

}  // namespace
}  // namespace triax
