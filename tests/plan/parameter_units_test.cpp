// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/parameter_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triax {
namespace {

using testing::ElementsAre;

const std::vector<UnitParameter> kParameters = {
    {.numel = 100, .unit = "head"},
    {.numel = 64, .unit = "blocks.1"},
    {.numel = 200, .unit = "blocks.1"},
    {.numel = 5, .unit = "blocks.1", .is_trained = false},
    {.numel = 64, .unit = "blocks.0"},
    {.numel = 300, .unit = "embedding", .is_trained = false}};

TEST(UnitLayout, BucketsHoldOneUnitAndOneKind) {
  const UnitLayout layout = make_unit_layout(kParameters, 1 << 20, 2);
  ASSERT_EQ(layout.units.size(), 4);
  EXPECT_EQ(layout.units[1].name, "blocks.1");
  EXPECT_THAT(layout.units[1].parameters, ElementsAre(1, 2, 3));
  EXPECT_THAT(layout.units[1].buckets, ElementsAre(1, 2));
  EXPECT_EQ(layout.units[1].range.start, 128);
  EXPECT_EQ(layout.units[1].range.length, 384 + 128);
  int64_t numel = 0;
  for (const ParameterUnit& unit : layout.units) {
    EXPECT_EQ(unit.range.start, numel);
    numel += unit.range.length;
  }
  EXPECT_EQ(numel, layout.numel());
}

// What a rank owns of a trained parameter is what it owns of its gradient.
TEST(UnitLayout, CutsTrainedParametersAsTheirGradients) {
  for (const int64_t bucket : {1, 200, 1 << 20}) {
    const int shards = 3;
    const UnitLayout all = make_unit_layout(kParameters, bucket, shards);
    const FlatLayout trained = trained_layout(kParameters, bucket, shards);
    const std::vector<int> numbers = {0, 1, 2, 4};
    for (int shard = 0; shard < shards; ++shard) {
      int64_t owned = 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const Range mine = owned_elements(trained, static_cast<int>(i), shard);
        EXPECT_EQ(owned_elements(all.flat, numbers[i], shard), mine)
            << "bucket " << bucket << " parameter " << i;
        owned += mine.length;
      }
      EXPECT_EQ(owned, owned_numel(trained, shard));
    }
  }
}

TEST(UnitLayout, AUnitTornApartIsRefused) {
  EXPECT_THROW(make_unit_layout({{.numel = 1, .unit = "a"},
                                 {.numel = 1, .unit = "b"},
                                 {.numel = 1, .unit = "a"}},
                                1,
                                2),
               std::logic_error);
}

TEST(UnitOfParameter, IsABlockOrAnEnd) {
  EXPECT_EQ(unit_of_parameter("blocks.13.attention.qkv.weight"), "blocks.13");
  EXPECT_EQ(unit_of_parameter("embedding.weight"), "embedding");
  EXPECT_EQ(unit_of_parameter("position_embedding.weight"), "embedding");
  EXPECT_EQ(unit_of_parameter("final_norm.weight"), "head");
  EXPECT_EQ(unit_of_parameter("head.weight"), "head");
}

TEST(MostGathered, IsThatOfNeighbours) {
  std::vector<UnitParameter> parameters;
  for (const int64_t numel : {1024, 64, 512, 64, 256}) {
    parameters.push_back(
        {.numel = numel, .unit = std::to_string(parameters.size())});
  }
  const UnitLayout layout = make_unit_layout(parameters, 1 << 20, 1);
  EXPECT_EQ(most_gathered(layout, 0), 1024);
  EXPECT_EQ(most_gathered(layout, 1), 256 + 1024);  // the ends are neighbours
  EXPECT_EQ(most_gathered(layout, 2), 1024 + 64 + 512);
  EXPECT_EQ(most_gathered(layout, 4), layout.numel());
  EXPECT_EQ(most_gathered(layout, 64), layout.numel());
  EXPECT_EQ(most_gathered({}, 1), 0);
}

}  // namespace
}  // namespace triax
