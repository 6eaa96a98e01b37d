// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/stage_split.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tests/plan/models.h"
#include "triax/base/error.h"

namespace triax {
namespace {

std::vector<int> counts_of(const std::vector<ModelPart>& parts) {
  std::vector<int> counts;
  for (const ModelPart& part : parts) {
    counts.push_back(part.num_layers);
  }
  return counts;
}

ModelConfig model_with_layers(int num_layers) {
  return llama_model(256, num_layers, 64, 128, 4, 4);
}

ParallelConfig stages(int pp, std::vector<int64_t> list = {}) {
  ParallelConfig parallel;
  parallel.pp = pp;
  parallel.stages = std::move(list);
  return parallel;
}

TEST(StageSplit, FirstStagesTakeWhatDoesNotDivide) {
  EXPECT_EQ(counts_of(split_stages(model_with_layers(46), stages(4))),
            (std::vector<int>{12, 12, 11, 11}));
  EXPECT_EQ(counts_of(split_stages(model_with_layers(3), stages(3))),
            (std::vector<int>{1, 1, 1}));
}

TEST(StageSplit, OneStageIsTheWholeModel) {
  EXPECT_EQ(split_stages(model_with_layers(5), stages(1)),
            (std::vector<ModelPart>{{.first_layer = 0, .num_layers = 5}}));
}

TEST(StageSplit, AListIsTaken) {
  const std::vector<ModelPart> parts =
      split_stages(model_with_layers(7), stages(3, {1, 4, 2}));
  EXPECT_EQ(parts,
            (std::vector<ModelPart>{
                {0, 1, true, false},
                {1, 4, false, false},
                {5, 2, false, true},
            }));
}

TEST(StageSplit, WhatDoesNotFitIsAnError) {
  EXPECT_THROW(split_stages(model_with_layers(3), stages(4)), Error);
  EXPECT_THROW(split_stages(model_with_layers(7), stages(3, {3, 4})), Error);
  EXPECT_THROW(split_stages(model_with_layers(7), stages(3, {3, 3, 3})), Error);
  EXPECT_THROW(split_stages(model_with_layers(7), stages(3, {4, 0, 3})), Error);
  EXPECT_THROW(split_stages(model_with_layers(7), stages(3, {4, 5, -2})),
               Error);
}

// BLOOM-176B: 70 layers, hidden 14336, 112 heads, vocabulary 250,880; (70 + 2)
// over 12 stages.
TEST(StageSplit, EmbeddingAndHeadWeighAsLayers) {
  const ModelConfig bloom = gpt2_model(250880, 70, 14336, 112, 2048);
  ParallelConfig parallel = stages(12);
  EXPECT_EQ(counts_of(split_stages(bloom, parallel)),
            (std::vector<int>{6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5}));
  parallel.weigh_embedding_and_head = true;
  EXPECT_EQ(counts_of(split_stages(bloom, parallel)),
            (std::vector<int>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
}

TEST(StageSplit, AHeavyVocabularyLeavesEveryStageALayer) {
  ParallelConfig parallel = stages(2);
  parallel.weigh_embedding_and_head = true;
  EXPECT_EQ(
      counts_of(split_stages(llama_model(100000, 4, 16, 16, 2, 2), parallel)),
      (std::vector<int>{2, 2}));
  parallel.pp = 4;
  EXPECT_EQ(
      counts_of(split_stages(llama_model(100000, 8, 16, 16, 2, 2), parallel)),
      (std::vector<int>{1, 3, 3, 1}));
}

RC_GTEST_PROP(StageSplit, CoversEveryLayerOnceAndEvenly, ()) {
  const int pp = *rc::gen::inRange(1, 20);
  const int num_layers = *rc::gen::inRange(pp, 100);
  const std::vector<ModelPart> parts =
      split_stages(model_with_layers(num_layers), stages(pp));
  RC_ASSERT(static_cast<int>(parts.size()) == pp);
  int next_layer = 0;
  for (const ModelPart& part : parts) {
    RC_ASSERT(part.first_layer == next_layer);
    RC_ASSERT(part.num_layers == num_layers / pp ||
              part.num_layers == (num_layers + pp - 1) / pp);
    RC_ASSERT(part.has_embedding == (&part == &parts.front()));
    RC_ASSERT(part.has_head == (&part == &parts.back()));
    next_layer += part.num_layers;
  }
  RC_ASSERT(next_layer == num_layers);
}

}  // namespace
}  // namespace triax
