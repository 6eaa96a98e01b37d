// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/zero_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/plan/models.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"

namespace triax {
namespace {

TEST(FlatLayout, BucketsCoverTheBufferAndSplitNoParameter) {
  const FlatLayout layout =
      make_flat_layout({64, 64, 640, 60, 64}, {.bucket_numel = 128});
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_EQ(layout.buckets[0].parameters, (std::vector<int>{0, 1}));
  EXPECT_EQ(layout.buckets[1].parameters, (std::vector<int>{2}));
  EXPECT_EQ(layout.buckets[2].parameters, (std::vector<int>{3, 4}));
  EXPECT_EQ(layout.buckets[1].range, (Range{128, 640}));
  EXPECT_EQ(layout.parameters[3], (Range{768, 60}));
  EXPECT_EQ(layout.parameters[4], (Range{832, 64}));
  EXPECT_EQ(layout.numel(), 896);
  EXPECT_EQ(layout.largest_bucket(), 640);
}

TEST(FlatLayout, ABucketIsPaddedToEqualAlignedShards) {
  const FlatLayout layout =
      make_flat_layout({100, 1, 500}, {.bucket_numel = 200, .num_shards = 3});
  ASSERT_EQ(layout.buckets.size(), 2u);
  EXPECT_EQ(layout.buckets[0].range, (Range{0, 192}));    // 128 + 64
  EXPECT_EQ(layout.buckets[1].range, (Range{192, 576}));  // 512, up to 3 * 192
  EXPECT_EQ(shard_of(layout, layout.buckets[1], 2), (Range{576, 192}));
  EXPECT_EQ(layout.shard_numel(), 256);
  EXPECT_THAT(slices_of_shard(layout, 0),
              testing::ElementsAre(ShardSlice{.parameter = 0,
                                              .bucket = 0,
                                              .elements = {0, 64},
                                              .start = 0,
                                              .offset = 0},
                                   ShardSlice{.parameter = 2,
                                              .bucket = 1,
                                              .elements = {0, 192},
                                              .start = 192,
                                              .offset = 64}));
  EXPECT_THAT(slices_of_shard(layout, 2),
              testing::ElementsAre(ShardSlice{.parameter = 1,
                                              .bucket = 0,
                                              .elements = {0, 1},
                                              .start = 128,
                                              .offset = 0},
                                   ShardSlice{.parameter = 2,
                                              .bucket = 1,
                                              .elements = {384, 116},
                                              .start = 576,
                                              .offset = 64}));
}

TEST(FlatLayout, AParameterMayStandAlone) {
  const FlatLayout layout = make_flat_layout(
      {8, 8, 8}, {.num_shards = 2, .is_alone = {false, true, false}});
  ASSERT_EQ(layout.buckets.size(), 3u);
  EXPECT_EQ(layout.buckets[1].parameters, (std::vector<int>{1}));
  EXPECT_EQ(layout.numel(), 3 * 128);
}

TEST(FlatLayout, OneShardPadsParametersOnly) {
  const FlatLayout layout = make_flat_layout({1, 65}, {.bucket_numel = 1});
  EXPECT_EQ(layout.numel(), 64 + 128);
  EXPECT_EQ(make_flat_layout({}, {.num_shards = 4}).numel(), 0);
  EXPECT_TRUE(
      slices_of_shard(make_flat_layout({}, {.num_shards = 4}), 3).empty());
}

// Every element of every parameter has one owner, whatever the sizes.
TEST(FlatLayout, EveryElementHasOneOwner) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> numels(random() % 9);
    for (int64_t& numel : numels) {
      numel = static_cast<int64_t>(random() % (random() % 3 == 0 ? 5000 : 70));
    }
    const int shards = 1 + static_cast<int>(random() % 6);
    const FlatLayout layout = make_flat_layout(
        numels,
        {.bucket_numel = 1 + static_cast<int64_t>(random() % 3000),
         .num_shards = shards});
    std::vector<std::vector<int>> owners;
    for (const int64_t numel : numels) {
      owners.emplace_back(numel, 0);
    }
    for (int shard = 0; shard < shards; ++shard) {
      int64_t end = 0;
      for (const ShardSlice& slice : slices_of_shard(layout, shard)) {
        EXPECT_EQ(slice.elements.start % kFlatAlignment, 0);
        EXPECT_EQ(slice.start % kFlatAlignment, 0);
        EXPECT_EQ(slice.offset % kFlatAlignment, 0);
        EXPECT_GE(slice.offset, end);
        end = slice.offset + slice.elements.length;
        EXPECT_EQ(
            layout.parameters[slice.parameter].start + slice.elements.start,
            slice.start);
        for (int64_t i = 0; i < slice.elements.length; ++i) {
          ++owners[slice.parameter][slice.elements.start + i];
        }
      }
      EXPECT_LE(end, layout.shard_numel());
    }
    for (const auto& owned : owners) {
      EXPECT_THAT(owned, testing::Each(1));
    }
  }
}

RunConfig tied_run(int zero, int dp) {
  RunConfig config;
  config.model = gpt2_model(11, 4, 16, 4, 32);
  config.parallel.pp = 2;
  config.parallel.dp = dp;
  config.parallel.zero = zero;
  config.training.global_batch_size = dp;
  return config;
}

/// The slices of a stage's tied weight, as ranges of its elements.
std::vector<Range> tied_slices(const RunConfig& config, int stage, int shard) {
  const ModelPart part = split_stages(config.model, config.parallel)[stage];
  const auto stored = parameter_layouts(config.model, part, 1, 0);
  const std::vector<ParameterLayout> trained(stored.rbegin(), stored.rend());
  std::vector<Range> ranges;
  for (const ShardSlice& slice :
       slices_of_shard(flat_layout(config, trained), shard)) {
    const std::string& name = trained[slice.parameter].name;
    if (name == "embedding.weight" || name == "head.weight") {
      ranges.push_back(slice.elements);
    }
  }
  return ranges;
}

TEST(ZeroStages, BothStagesCutATiedWeightAlike) {
  for (const int dp : {2, 3, 4}) {
    RunConfig config = tied_run(1, dp);
    config.parallel.bucket_bytes = 3000;
    bool has_any = false;
    for (int shard = 0; shard < dp; ++shard) {
      const auto first = tied_slices(config, 0, shard);
      EXPECT_EQ(first, tied_slices(config, 1, shard));
      has_any |= !first.empty();
    }
    EXPECT_TRUE(has_any);
  }
}

TEST(ZeroStages, GroupsSplitAsFarAsTheyReach) {
  ParallelConfig parallel;
  parallel.dp = 4;
  EXPECT_EQ(num_shards(parallel), 1);
  parallel.zero_group = 2;
  EXPECT_EQ(num_shards(parallel), 1);
  parallel.zero = 2;
  EXPECT_EQ(num_shards(parallel), 2);
  parallel.zero_group = 0;
  EXPECT_EQ(num_shards(parallel), 4);
}

/// 12.6 M parameters, fp32 and AdamW.
RunConfig large_run(int zero, int dp) {
  RunConfig config;
  config.model = llama_model(4000, 4, 384, 1152, 6, 6);
  config.parallel.dp = dp;
  config.parallel.zero = zero;
  config.parallel.bucket_bytes = 1 << 20;
  config.training.microbatch_size = 1;
  config.training.global_batch_size = 4 * dp;
  return config;
}

StateBytesOfRank bytes_of(const RunConfig& config) {
  const ModelPart part = split_stages(config.model, config.parallel)[0];
  return state_bytes_of_rank(config,
                             parameter_layouts(config.model, part, 1, 0));
}

// Weights w, gradients g / d from stage 2 on, Adam's two moments 2 w / d.
TEST(ZeroStages, TakeTheBytesOfTheFormula) {
  const double numel =
      2.0 * 4000 * 384 + 384 + 4.0 * (4 * 384 * 384 + 3 * 384 * 1152 + 2 * 384);
  ASSERT_GT(numel, 1e7);
  for (const int dp : {1, 2, 4}) {
    for (const int zero : {0, 1, 2, 3}) {
      const StateBytesOfRank bytes = bytes_of(large_run(zero, dp));
      const double share = zero == 0 ? 1 : dp;
      EXPECT_NEAR(
          bytes.parameters * (zero == 3 ? dp : 1), 4 * numel, 0.01 * 4 * numel);
      EXPECT_NEAR(
          bytes.gradients * (zero >= 2 ? dp : 1), 4 * numel, 0.01 * 4 * numel);
      // Two blocks, the largest units.
      const double block = 4 * 384 * 384 + 3 * 384 * 1152 + 2 * 384;
      EXPECT_NEAR(bytes.gathered,
                  zero == 3 && dp > 1 ? 4 * 2 * block : 0.0,
                  0.01 * 4 * 2 * block);
      EXPECT_NEAR(bytes.optimizer * share, 8 * numel, 0.01 * 8 * numel);
      EXPECT_EQ(bytes.buckets,
                zero >= 2 && dp > 1 ? 2 * bytes.largest_bucket : 0);
    }
  }
}

// Weights 2, gradients 4 / d from stage 2 on, masters and moments 12 / d.
TEST(ZeroStages, TakeTheBytesOfTheFormulaWithMasters) {
  const double numel =
      2.0 * 4000 * 384 + 384 + 4.0 * (4 * 384 * 384 + 3 * 384 * 1152 + 2 * 384);
  for (const int dp : {1, 2, 4}) {
    for (const int zero : {0, 1, 2}) {
      RunConfig config = large_run(zero, dp);
      config.training.precision = Precision::kBf16;
      const StateBytesOfRank bytes = bytes_of(config);
      const double share = zero == 0 ? 1 : dp;
      EXPECT_NEAR(bytes.parameters, 2 * numel, 0.01 * 2 * numel);
      EXPECT_NEAR(
          bytes.gradients * (zero == 2 ? dp : 1), 4 * numel, 0.01 * 4 * numel);
      EXPECT_NEAR(bytes.optimizer * share, 12 * numel, 0.01 * 12 * numel);
    }
  }
}

TEST(ZeroStages, CountCopiesThatAreSent) {
  for (const int zero : {0, 1, 2}) {
    RunConfig config = large_run(zero, 2);
    config.parallel.reduce_dtype = ReduceDtype::kBf16;
    const StateBytesOfRank bytes = bytes_of(config);
    const int64_t block = zero == 2 ? bytes.largest_bucket : 0;
    EXPECT_EQ(bytes.copy_bytes, bytes.largest_bucket / 2);
    EXPECT_EQ(bytes.buckets, block + 2 * bytes.copy_bytes);
    config.parallel.dp = 1;
    EXPECT_EQ(bytes_of(config).buckets, 0);
  }
}

TEST(ZeroStages, AllCostTheSameOnOneReplica) {
  const StateBytesOfRank plain = bytes_of(large_run(0, 1));
  for (const int zero : {1, 2, 3}) {
    const StateBytesOfRank bytes = bytes_of(large_run(zero, 1));
    EXPECT_EQ(bytes.parameters, plain.parameters);
    EXPECT_EQ(bytes.gradients, plain.gradients);
    EXPECT_EQ(bytes.optimizer, plain.optimizer);
    EXPECT_EQ(bytes.buckets, 0);
    EXPECT_EQ(bytes.gathered, 0);
  }
}

TEST(ZeroStages, KeepUnitsGatheredThatAreNotResharded) {
  RunConfig config = large_run(3, 2);
  config.parallel.reshard_after_forward = false;
  const StateBytesOfRank bytes = bytes_of(config);
  EXPECT_EQ(bytes.gathered, 2 * bytes.parameters);
  config.parallel.reshard_after_forward = true;
  config.parallel.prefetch = 64;
  EXPECT_EQ(bytes_of(config).gathered, bytes.gathered);
  config.parallel.prefetch = 0;
  EXPECT_LT(bytes_of(config).gathered, bytes.gathered / 4);
}

}  // namespace
}  // namespace triax
