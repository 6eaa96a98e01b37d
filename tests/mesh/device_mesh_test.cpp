// SPDX-License-Identifier: Apache-2.0
#include "triax/mesh/device_mesh.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/run_ranks.h"
#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

class Mesh : public testing::TestWithParam<ParallelDims> {};

TEST_P(Mesh, GroupsAreTheRanksThatDifferAlongOneAxis) {
  const ParallelDims dims = GetParam();
  run_ranks(dims.world_size(), [&](std::unique_ptr<Group> world) {
    const int rank = world->rank();
    DeviceMesh mesh(dims, std::move(world));
    EXPECT_EQ(mesh.rank(), rank);
    EXPECT_EQ(mesh.coord(), dims.coord(rank));
    for (Axis axis : {Axis::kTp, Axis::kPp, Axis::kDp}) {
      Group& group = mesh.group(axis);
      const std::vector<int> expected = dims.group_ranks(axis, rank);
      ASSERT_EQ(group.size(), static_cast<int>(expected.size()));
      EXPECT_EQ(group.rank(), mesh.coord().on(axis));
      EXPECT_EQ(group.name(), axis_name(axis));
      for (int i = 0; i < group.size(); ++i) {
        EXPECT_EQ(group.world_rank(i), expected[i]);
      }
    }
  });
}

TEST_P(Mesh, TiedStagesAreTheEndsOfOnePipeline) {
  const ParallelDims dims = GetParam();
  run_ranks(dims.world_size(), [&](std::unique_ptr<Group> world) {
    DeviceMesh mesh(dims, std::move(world));
    const bool is_end = mesh.is_first_stage() || mesh.is_last_stage();
    Group* tied = mesh.tied_stages();
    ASSERT_EQ(tied != nullptr, dims.pp > 1 && is_end);
    if (tied != nullptr) {
      EXPECT_EQ(tied->size(), 2);
      EXPECT_EQ(tied->rank(), mesh.is_first_stage() ? 0 : 1);
      Coord other = mesh.coord();
      other.pp = mesh.is_first_stage() ? dims.pp - 1 : 0;
      EXPECT_EQ(tied->world_rank(1 - tied->rank()), dims.rank(other));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    Mesh,
    testing::Values(ParallelDims{},
                    ParallelDims{.tp = 2, .pp = 1, .dp = 1},
                    ParallelDims{.tp = 1, .pp = 3, .dp = 1},
                    ParallelDims{.tp = 2, .pp = 2, .dp = 2},
                    ParallelDims{.tp = 2,
                                 .pp = 2,
                                 .dp = 2,
                                 .order = {Axis::kDp, Axis::kPp, Axis::kTp}},
                    ParallelDims{.tp = 1, .pp = 3, .dp = 2}),
    [](const auto& info) {
      return info.param.name() + "_" + std::to_string(info.index);
    });

TEST(TensorGroup, SumsNumbersAndTensorsOverTheGroup) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const double rank = world->rank();
    EXPECT_EQ(sum_over(*world, rank + 1), 6.0);
    EXPECT_EQ(max_over(*world, rank), 2.0);
    std::array<double, 2> values = {rank, 10.0};
    sum_over(*world, values);
    EXPECT_EQ(values, (std::array<double, 2>{3.0, 30.0}));
  });
}

TEST(TensorGroup, RefusesTypesThatDoNotTravel) {
  EXPECT_THROW(to_dtype(at::kBool), Error);
  EXPECT_THROW(to_dtype(at::kChar), Error);
  for (DType dtype : {DType::kFloat64,
                      DType::kFloat32,
                      DType::kBfloat16,
                      DType::kFloat16,
                      DType::kInt64}) {
    EXPECT_EQ(to_dtype(to_scalar_type(dtype)), dtype);
  }
}

}  // namespace
}  // namespace triax
