// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/comm/ranks.h"
#include "triax/comm/local.h"

namespace triax {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Mismatch {
  const char* name;
  RankMain rank_main;  // two ranks
  const char* first;   // what the message says of one rank
  const char* second;  // and of the other
};

void PrintTo(const Mismatch& mismatch, std::ostream* out) {
  *out << mismatch.name;
}

float values[64];
Buffer floats(int64_t numel) {
  return {values, numel};
}

class LocalMismatch
    : public testing::TestWithParam<std::tuple<RankKind, Mismatch>> {};

TEST_P(LocalMismatch, IsAnErrorOnBothRanksThatNamesBothCallSites) {
  const auto& [kind, mismatch] = GetParam();
  const auto start = std::chrono::steady_clock::now();
  const auto outcome = run_ranks(kind, 2, mismatch.rank_main);
  // A second where the machine is idle; it may be busy.
  EXPECT_LT(seconds_since(start), 5.0);
  for (const std::string& text : outcome) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("rank 0"),
                      HasSubstr("rank 1"),
                      HasSubstr(mismatch.first),
                      HasSubstr(mismatch.second)));
    int num_sites = 0;
    for (size_t at = text.find("local_mismatch_test.cpp:");
         at != std::string::npos;
         at = text.find("local_mismatch_test.cpp:", at + 1)) {
      ++num_sites;
    }
    EXPECT_GE(num_sites, 2) << text;
  }
}

const Mismatch kMismatches[] = {
    {"op",
     [](Group& group) {
       group.rank() == 0 ? group.all_reduce(floats(8))
                         : group.broadcast(floats(8), 0);
     },
     "all_reduce(sum, 8 fp32) #0 of group world",
     "broadcast(root 0, 8 fp32) #0 of group world"},
    {"count",
     [](Group& group) { group.all_reduce(floats(8 + group.rank())); },
     "8 fp32",
     "9 fp32"},
    {"count_across_algorithms",
     [](Group& group) {
       std::vector<float> data(1 << 20);
       group.all_reduce({data.data(), group.rank() == 0 ? 8 : 1 << 20});
     },
     "8 fp32",
     "1048576 fp32"},
    {"dtype",
     [](Group& group) {
       group.all_reduce(
           {values, 8, group.rank() == 0 ? DType::kFloat32 : DType::kBfloat16});
     },
     "8 fp32",
     "8 bf16"},
    {"reduce_op",
     [](Group& group) {
       group.all_reduce(floats(8),
                        group.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax);
     },
     "all_reduce(sum",
     "all_reduce(max"},
    {"root",
     [](Group& group) { group.broadcast(floats(8), group.rank()); },
     "root 0",
     "root 1"},
    {"order",
     [](Group& group) {
       if (group.rank() == 0) {
         group.barrier();
         group.all_reduce(floats(8));
       } else {
         group.all_reduce(floats(8));
         group.barrier();
       }
     },
     "barrier() #0",
     "all_reduce(sum, 8 fp32) #0"},
    {"missing",
     [](Group& group) {
       group.barrier();
       if (group.rank() == 0) {
         group.all_reduce(floats(8));
       }
       group.barrier();
     },
     "all_reduce(sum, 8 fp32) #1",
     "barrier() #1"},
    {"asynchronous",
     [](Group& group) {
       Work work = group.all_reduce_async(floats(8 + group.rank()));
       work.wait();
     },
     "8 fp32",
     "9 fp32"},
    {"message_count",
     [](Group& group) {
       group.rank() == 0 ? group.send(floats(8), 1) : group.recv(floats(9), 0);
       group.barrier();
     },
     "send(8 fp32) #0 to rank 1",
     "recv(9 fp32) #0 from rank 0"},
    {"message_dtype",
     [](Group& group) {
       group.rank() == 0 ? group.send(floats(8), 1)
                         : group.recv({values, 8, DType::kInt64}, 0);
       group.barrier();
     },
     "send(8 fp32) #0",
     "recv(8 int64) #0"},
    {"message_order",
     [](Group& group) {
       if (group.rank() == 0) {
         group.send(floats(8), 1);
         group.send(floats(16), 1);
       } else {
         group.recv(floats(16), 0);
         group.recv(floats(8), 0);
       }
       group.barrier();
     },
     "send(8 fp32) #0",
     "recv(16 fp32) #0"},
    {"crossed_receives",
     [](Group& group) { group.recv(floats(8), 1 - group.rank()); },
     "rank 0 waits in recv #0 from rank 1",
     "rank 1 waits in recv #0 from rank 0"},
    {"cycle_of_groups",
     [](Group& world) {
       const auto a = world.split(0, 0, "a");
       const auto b = world.split(0, 0, "b");
       world.rank() == 0 ? a->all_reduce(floats(8)) : b->all_reduce(floats(8));
       world.rank() == 0 ? b->all_reduce(floats(8)) : a->all_reduce(floats(8));
     },
     "rank 0 waits in all_reduce #0 of group a",
     "rank 1 waits in all_reduce #0 of group b"},
    {"collective_against_message",
     [](Group& group) {
       group.rank() == 0 ? group.all_reduce(floats(8))
                         : group.recv(floats(8), 0);
     },
     "rank 0 waits in all_reduce #0",
     "rank 1 waits in recv #0"},
};

INSTANTIATE_TEST_SUITE_P(Kinds,
                         LocalMismatch,
                         testing::Combine(testing::ValuesIn(rank_kinds()),
                                          testing::ValuesIn(kMismatches)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ==
                                                      RankKind::kThreads
                                                  ? "threads_"
                                                  : "processes_") +
                                  std::get<1>(info.param).name;
                         });

TEST(LocalMismatch, ExtraCallAfterTheOtherRankFinishedNamesIt) {
  for (RankKind kind : rank_kinds()) {
    const auto start = std::chrono::steady_clock::now();
    const auto outcome = run_ranks(kind, 3, [](Group& group) {
      group.barrier();
      if (group.rank() != 2) {
        group.all_reduce(floats(8));
      }
    });
    EXPECT_LT(seconds_since(start), 5.0);
    EXPECT_EQ(outcome[2], "");
    for (int rank : {0, 1}) {
      EXPECT_THAT(outcome[size_t(rank)],
                  AllOf(HasSubstr("all_reduce #1 of group world at "
                                  "local_mismatch_test.cpp:"),
                        HasSubstr("for rank 2, which has finished")));
    }
  }
}

TEST(LocalMismatch, ALargeMessageThatNobodyTakesNamesTheReceiver) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    if (group.rank() == 0) {
      std::vector<float> data(1 << 20);
      group.send({data.data(), 1 << 20}, 1);
    }
  });
  EXPECT_THAT(outcome[0],
              AllOf(HasSubstr("send #0 to rank 1 of group world"),
                    HasSubstr("rank 1, which has finished")));
}

TEST(LocalMismatch, ThreeGroupsInACircleAreFound) {
  const auto outcome = run_ranks(RankKind::kThreads, 3, [](Group& world) {
    const int rank = world.rank();
    // Pairs 0-1, 1-2, 2-0, each rank beginning with the one to its right.
    std::vector<std::unique_ptr<Group>> pairs;
    for (int pair = 0; pair < 3; ++pair) {
      const bool is_in = rank == pair || rank == (pair + 1) % 3;
      pairs.push_back(
          world.split(is_in ? 0 : -1, 0, "pair" + std::to_string(pair)));
    }
    pairs[size_t(rank)]->barrier();
    pairs[size_t((rank + 2) % 3)]->barrier();
  });
  for (const std::string& text : outcome) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("in a circle"),
                      HasSubstr("group pair0"),
                      HasSubstr("group pair1"),
                      HasSubstr("group pair2")));
  }
}

}  // namespace
}  // namespace triax
