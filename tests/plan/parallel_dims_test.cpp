// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/parallel_dims.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "triax/base/error.h"

namespace triax {
namespace {

ParallelDims dims_of(int tp, int pp, int dp, const std::string& order) {
  ParallelConfig config;
  config.tp = tp;
  config.pp = pp;
  config.dp = dp;
  config.order = order;
  return make_parallel_dims(config);
}

TEST(ParallelDims, TpIsInnermostAndDpOutermost) {
  const ParallelDims dims = dims_of(2, 3, 4, "tp-pp-dp");
  EXPECT_EQ(dims.world_size(), 24);
  EXPECT_EQ(dims.coord(0), (Coord{.dp = 0, .pp = 0, .tp = 0}));
  EXPECT_EQ(dims.coord(1), (Coord{.dp = 0, .pp = 0, .tp = 1}));
  EXPECT_EQ(dims.coord(2), (Coord{.dp = 0, .pp = 1, .tp = 0}));
  EXPECT_EQ(dims.coord(6), (Coord{.dp = 1, .pp = 0, .tp = 0}));
  EXPECT_EQ(dims.group_ranks(Axis::kTp, 9), (std::vector<int>{8, 9}));
  EXPECT_EQ(dims.group_ranks(Axis::kPp, 9), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(dims.group_ranks(Axis::kDp, 9), (std::vector<int>{3, 9, 15, 21}));
}

TEST(ParallelDims, OrderSaysWhichAxisIsInnermost) {
  const ParallelDims dims = dims_of(2, 3, 4, "dp-pp-tp");
  EXPECT_EQ(dims.group_ranks(Axis::kDp, 0), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(dims.group_ranks(Axis::kPp, 0), (std::vector<int>{0, 4, 8}));
  EXPECT_EQ(dims.group_ranks(Axis::kTp, 0), (std::vector<int>{0, 12}));
}

TEST(ParallelDims, NameLeavesOutDegreeOne) {
  EXPECT_EQ(dims_of(1, 1, 1, "tp-pp-dp").name(), "dp1");
  EXPECT_EQ(dims_of(2, 1, 1, "tp-pp-dp").name(), "tp2");
  EXPECT_EQ(dims_of(2, 2, 2, "pp-tp-dp").name(), "dp2_tp2_pp2");
  EXPECT_EQ(dims_of(1, 4, 3, "tp-pp-dp").name(), "dp3_pp4");
}

TEST(ParallelDims, BadOrderOrDegreeIsAnError) {
  for (const char* order : {"tp-pp",
                            "tp-pp-pp",
                            "tp-pp-dp-",
                            "tp-pp-cp",
                            "tp,pp,dp",
                            "",
                            "tp-pp-dp-tp",
                            "-tppp-dp"}) {
    EXPECT_THROW(dims_of(1, 1, 1, order), Error) << order;
  }
  EXPECT_THROW(dims_of(1, 1, 0, "tp-pp-dp"), Error);
  EXPECT_THROW(dims_of(-2, 1, 1, "tp-pp-dp"), Error);
}

RC_GTEST_PROP(ParallelDims, CoordAndRankAreInverseAndGroupsPartition, ()) {
  const auto order = *rc::gen::element<std::string>(
      "tp-pp-dp", "tp-dp-pp", "pp-tp-dp", "pp-dp-tp", "dp-tp-pp", "dp-pp-tp");
  const ParallelDims dims = dims_of(*rc::gen::inRange(1, 6),
                                    *rc::gen::inRange(1, 6),
                                    *rc::gen::inRange(1, 6),
                                    order);
  for (int rank = 0; rank < dims.world_size(); ++rank) {
    RC_ASSERT(dims.rank(dims.coord(rank)) == rank);
    for (Axis axis : dims.order) {
      const std::vector<int> group = dims.group_ranks(axis, rank);
      RC_ASSERT(static_cast<int>(group.size()) == dims.degree(axis));
      RC_ASSERT(std::is_sorted(group.begin(), group.end()));
      RC_ASSERT(group[dims.coord(rank).on(axis)] == rank);
      RC_ASSERT(dims.group_ranks(axis, group.back()) == group);
    }
  }
}

}  // namespace
}  // namespace triax
