// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <vector>

#include "tests/comm/elements.h"
#include "tests/comm/ranks.h"

namespace triax {
namespace {

/// Runs every collective with `numel` elements a part against the reference.
void check_collectives(
    Group& group, DType dtype, ReduceOp op, int64_t numel, uint64_t salt) {
  const int size = group.size();
  const int rank = group.rank();
  const int64_t full = numel * size;
  std::vector<Elements> inputs;
  for (int other = 0; other < size; ++other) {
    inputs.push_back(samples(dtype, full, other, salt));
  }
  const Elements reduced = reference_reduce(inputs, op);

  Elements all_reduced = inputs[size_t(rank)];
  group.all_reduce(all_reduced.buffer(), op);
  require(all_reduced == reduced, "all_reduce");

  // The same bits by the other way; `mine` is part of `all`, twice.
  Elements scattered = inputs[size_t(rank)];
  const Buffer mine = scattered.part(rank * numel, numel);
  group.reduce_scatter(scattered.buffer(), mine, op);
  group.all_gather(mine, scattered.buffer());
  require(scattered == reduced, "reduce_scatter and all_gather in place");

  Elements own(dtype, numel);
  group.reduce_scatter(inputs[size_t(rank)].buffer(), own.buffer(), op);
  Elements gathered(dtype, full);
  group.all_gather(own.buffer(), gathered.buffer());
  require(gathered == reduced, "reduce_scatter and all_gather");

  Elements exchanged(dtype, full);
  group.all_to_all(inputs[size_t(rank)].buffer(), exchanged.buffer());
  Elements expected(dtype, full);
  for (int other = 0; other < size; ++other) {
    for (int64_t i = 0; i < numel; ++i) {
      expected.set(other * numel + i,
                   sample(other, rank * numel + i, salt, dtype));
    }
  }
  require(exchanged == expected, "all_to_all");

  const int root = int(salt % uint64_t(size));
  Elements sent = inputs[size_t(rank)];
  group.broadcast(sent.buffer(), root);
  require(sent == inputs[size_t(root)], "broadcast");
}

void check_messages(Group& group, DType dtype, int64_t numel, uint64_t salt) {
  const int size = group.size();
  const int to = (group.rank() + 1) % size;
  const int from = (group.rank() + size - 1) % size;
  if (size == 1) {
    return;
  }
  Elements sent = samples(dtype, numel, group.rank(), salt);
  Elements received(dtype, numel);
  Work work = group.send_async(sent.buffer(), to);
  group.recv(received.buffer(), from);
  work.wait();
  require(received == samples(dtype, numel, from, salt), "ring of messages");
}

class LocalSizes : public testing::TestWithParam<std::tuple<RankKind, int>> {};

TEST_P(LocalSizes, EveryOperationEqualsTheReferenceBitForBit) {
  const auto [kind, size] = GetParam();
  const auto outcome = run_ranks(kind, size, [](Group& group) {
    uint64_t salt = 0;
    for (int64_t numel : {0, 1, 3, 129, 4001}) {
      for (DType dtype : kAllDTypes) {
        for (ReduceOp op : kAllReduceOps) {
          check_collectives(group, dtype, op, numel, ++salt);
        }
        check_messages(group, dtype, numel, salt);
      }
    }
    group.barrier();
  });
  EXPECT_EQ(outcome, Outcome(size_t(size)));
}

TEST_P(LocalSizes, TensorsOfManyChunksToo) {
  const auto [kind, size] = GetParam();
  const auto outcome = run_ranks(kind, size, [](Group& group) {
    const int64_t numel = 400'001 / group.size();
    check_collectives(group, DType::kFloat32, ReduceOp::kSum, numel, 1);
    check_collectives(group, DType::kBfloat16, ReduceOp::kAvg, numel, 2);
    check_messages(group, DType::kFloat32, 400'001, 3);
  });
  EXPECT_EQ(outcome, Outcome(size_t(size)));
}

INSTANTIATE_TEST_SUITE_P(Ranks,
                         LocalSizes,
                         testing::Combine(testing::ValuesIn(rank_kinds()),
                                          testing::Values(1, 2, 3, 4, 5, 8)));

TEST(Local, TheBitsDoNotDependOnHowATensorIsCut) {
  const auto outcome = run_ranks(RankKind::kThreads, 3, [](Group& group) {
    const int64_t numel = 600'000;
    Elements whole = samples(DType::kFloat32, numel, group.rank(), 4);
    Elements cut = whole;
    group.all_reduce(whole.buffer());
    for (int64_t start = 0; start < numel;) {
      const int64_t count =
          std::min<int64_t>(numel - start, 1 + start % 70'001);
      group.all_reduce(cut.part(start, count));
      start += count;
    }
    require(cut == whole, "equal bits");
  });
  EXPECT_EQ(outcome, Outcome(3));
}

TEST(Local, ARankAloneDoesNothingButCopy) {
  const auto outcome = run_ranks(RankKind::kThreads, 1, [](Group& group) {
    float in[2] = {1, 2};
    float out[2] = {};
    group.all_gather({in, 2}, {out, 2});
    require(out[1] == 2, "copied");
    group.all_reduce({in, 2}, ReduceOp::kAvg);
    require(in[0] == 1, "unchanged");
    group.barrier();
    Work work = group.all_reduce_async({in, 2});
    require(work.is_done(), "done at once");
    const auto part = group.split(0, 0, "dp");
    require(part->size() == 1 && part->name() == "dp", "split");
  });
  EXPECT_EQ(outcome, Outcome(1));
}

TEST(Local, WrongArgumentsAreToldWithTheCallSite) {
  const auto outcome = run_ranks(RankKind::kThreads, 2, [](Group& group) {
    float data[3] = {};
    group.all_gather({data, 1}, {data, 3});
  });
  EXPECT_NE(outcome[0].find("all_gather of group world at local_test.cpp:"),
            std::string::npos)
      << outcome[0];
  EXPECT_NE(outcome[0].find("1 elements in and 3 out"), std::string::npos);
}

TEST(Local, SplitOrdersByKeyThenRankAndLeavesOutNegativeColors) {
  for (RankKind kind : rank_kinds()) {
    const auto outcome = run_ranks(kind, 5, [](Group& world) {
      const int rank = world.rank();
      const auto group = world.split(rank == 4 ? -1 : rank % 2, -rank, "tp");
      require((group == nullptr) == (rank == 4), "left out");
      if (group) {
        require(group->name() == "tp" && group->size() == 2, "two of two");
        require(group->world_rank(0) == rank % 2 + 2, "the later comes first");
        require(group->rank() == (rank < 2 ? 1 : 0), "its rank");
        int64_t sum = rank;
        group->all_reduce({&sum, 1, DType::kInt64});
        require(sum == 2 * (rank % 2) + 2, "sum of the group");
      }
      world.barrier();
    });
    EXPECT_EQ(outcome, Outcome(5));
  }
}

TEST(Local, GroupsCanBeMadeAndDroppedWithoutEnd) {
  const auto outcome = run_ranks(RankKind::kThreads, 4, [](Group& world) {
    for (int round = 0; round < 1000; ++round) {
      const auto group = world.split(world.rank() / 2, 0, "dp");
      check_collectives(*group, DType::kFloat32, ReduceOp::kSum, 5, 1);
    }
  });
  EXPECT_EQ(outcome, Outcome(4));
}

RC_GTEST_PROP(LocalProperty, AnySplitCountAndTypeEqualsTheReference, ()) {
  const int size = *rc::gen::inRange(1, 7);
  const auto colors = *rc::gen::container<std::vector<int>>(
      size_t(size), rc::gen::inRange(0, 3));
  const auto numel = *rc::gen::oneOf(rc::gen::inRange<int64_t>(0, 100),
                                     rc::gen::inRange<int64_t>(0, 40'000));
  const DType dtype = *rc::gen::elementOf(
      std::vector<DType>(std::begin(kAllDTypes), std::end(kAllDTypes)));
  const ReduceOp op = *rc::gen::elementOf(std::vector<ReduceOp>(
      std::begin(kAllReduceOps), std::end(kAllReduceOps)));
  const auto salt = *rc::gen::inRange<uint64_t>(0, 1000);
  const auto outcome = run_ranks(RankKind::kThreads, size, [&](Group& world) {
    const auto group = world.split(colors[size_t(world.rank())], 0, "part");
    check_collectives(*group, dtype, op, numel, salt);
    check_messages(*group, dtype, numel, salt);
  });
  RC_ASSERT(outcome == Outcome(size_t(size)));
}

}  // namespace
}  // namespace triax
