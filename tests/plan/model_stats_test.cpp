// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/model_stats.h"

#include <gtest/gtest.h>

#include "tests/plan/models.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"

namespace triax {
namespace {

TEST(ModelStats, CountsGpt2TiedPaddedAndUntied) {
  ModelConfig model = gpt2_small();
  EXPECT_EQ(num_parameters(model), 124439808);
  model.vocab_size = 50304;
  EXPECT_EQ(num_parameters(model), 124475904);
  model.vocab_size = 50257;
  model.tie_word_embeddings = false;
  EXPECT_EQ(num_parameters(model), 163037184);
}

TEST(ModelStats, CountsPublishedLlamas) {
  EXPECT_EQ(num_parameters(llama_model(32000, 32, 4096, 11008, 32, 32)),
            6738415616);
  EXPECT_EQ(num_parameters(llama_model(128256, 32, 4096, 14336, 32, 8)),
            8030261248);
  EXPECT_EQ(num_parameters(llama_model(128256, 80, 8192, 28672, 64, 8)),
            70553706496);
  ModelConfig tied = llama_model(128256, 16, 2048, 8192, 32, 8);
  tied.tie_word_embeddings = true;
  EXPECT_EQ(num_parameters(tied), 1235814400);
}

/// What all ranks own together: each element once, a tied copy not at all.
int64_t count_owned(const ModelConfig& model, int tp, int pp) {
  ParallelConfig parallel;
  parallel.pp = pp;
  int64_t count = 0;
  for (const ModelPart& part : split_stages(model, parallel)) {
    for (int rank = 0; rank < tp; ++rank) {
      for (const ParameterLayout& layout :
           parameter_layouts(model, part, tp, rank)) {
        const bool is_tied_copy =
            layout.name == "head.weight" && model.tie_word_embeddings;
        for (const Piece& piece : layout.pieces) {
          count += piece.replica == 0 && !is_tied_copy ? piece.numel() : 0;
        }
      }
    }
  }
  return count;
}

TEST(ModelStats, CountIsThatOfEveryLayout) {
  ModelConfig tied = llama_model(128256, 16, 2048, 8192, 32, 8);
  tied.tie_word_embeddings = true;
  for (const ModelConfig& model :
       {gpt2_small(), tied, llama_model(50257, 32, 4096, 11009, 32, 4)}) {
    for (int tp : {1, 2, 4}) {
      for (int pp : {1, 2, 3}) {
        EXPECT_EQ(count_owned(model, tp, pp), num_parameters(model))
            << "tp" << tp << "_pp" << pp;
      }
    }
  }
}

TEST(ModelStats, PaddingIsCountedByItself) {
  const ModelConfig model = gpt2_small();
  const ModelPart whole = {.num_layers = 12};
  EXPECT_EQ(count_stored(parameter_layouts(model, whole, 1, 0)),
            (StoredCount{.num_stored = 124439808, .num_padding = 0}));
  const StoredCount first = count_stored(parameter_layouts(model, whole, 2, 0));
  const StoredCount second =
      count_stored(parameter_layouts(model, whole, 2, 1));
  EXPECT_EQ(first.num_padding, 0);
  EXPECT_EQ(second.num_padding, 768);  // one row of 50257 / 2
  EXPECT_EQ(first.num_stored, second.num_stored);
}

TEST(ModelStats, EveryMatrixButTheEmbeddingMultiplies) {
  // 12 h^2 for a layer and V h for the head, tied or not.
  const int64_t expected = 12LL * 12 * 768 * 768 + 50257 * 768;
  ModelConfig model = gpt2_small();
  EXPECT_EQ(num_matmul_parameters(model), expected);
  model.tie_word_embeddings = false;
  EXPECT_EQ(num_matmul_parameters(model), expected);
}

// Megatron's form for f = 4 h, per token:
// 72 L h^2 (1 + s / (6 h) + V / (12 h L)) (Narayanan et al. 2021).
TEST(ModelStats, FlopsAreThoseOfMegatronsForm) {
  const double L = 12, h = 768, s = 1024, V = 50257;
  const double expected = 72 * L * h * h * (1 + s / (6 * h) + V / (12 * h * L));
  EXPECT_NEAR(flops_per_token(gpt2_small(), 1024, FlopsKind::kPalm) / expected,
              1.0,
              1e-12);
  EXPECT_DOUBLE_EQ(flops_per_token(gpt2_small(), 1024, FlopsKind::kPalm) -
                       flops_per_token(gpt2_small(), 1024, FlopsKind::kCausal),
                   6 * L * s * h);
}

TEST(ModelStats, AttentionCountsHeadsNotHiddenSize) {
  ModelConfig model = llama_model(100, 3, 64, 128, 4, 2);
  model.head_dim = 32;
  EXPECT_DOUBLE_EQ(flops_per_token(model, 10, FlopsKind::kPalm) -
                       6.0 * num_matmul_parameters(model),
                   12.0 * 3 * 10 * 4 * 32);
}

// Full recompute executes, for f = 4 h and per token,
// 96 L h^2 (1 + s / (6 h) + V / (16 h L)) (Narayanan et al. 2021).
TEST(ModelStats, FullRecomputeAddsAForwardOfTheLayers) {
  const double L = 12, h = 768, s = 1024, V = 50257;
  RunConfig config;
  config.model = gpt2_small();
  config.data.sequence_length = 1024;
  EXPECT_EQ(recomputed_flops_per_token(config, FlopsKind::kPalm), 0.0);
  config.memory.recompute = Recompute::kFull;
  const double executed =
      flops_per_token(config.model, 1024, FlopsKind::kPalm) +
      recomputed_flops_per_token(config, FlopsKind::kPalm);
  EXPECT_NEAR(
      executed / (96 * L * h * h * (1 + s / (6 * h) + V / (16 * h * L))),
      1.0,
      1e-12);
}

TEST(ModelStats, SelectiveRecomputeAddsAttentionWhereDropoutNeedsIt) {
  RunConfig config;
  config.model = gpt2_small();
  config.data.sequence_length = 1024;
  config.memory.recompute = Recompute::kSelective;
  EXPECT_EQ(recomputed_flops_per_token(config, FlopsKind::kPalm), 0.0);
  config.model.attn_pdrop = 0.1;
  EXPECT_DOUBLE_EQ(recomputed_flops_per_token(config, FlopsKind::kPalm),
                   4.0 * 12 * 1024 * 768);
}

TEST(ModelStats, UtilizationIsAShareOfThePeak) {
  EXPECT_DOUBLE_EQ(model_flops_utilization(1000.0, 6e9, 24e12), 0.25);
}

}  // namespace
}  // namespace triax
