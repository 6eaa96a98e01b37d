// SPDX-License-Identifier: Apache-2.0
// Recomputing changes no bit of loss, gradients and weights (CASES 30).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/step_bits.h"

namespace triax {
namespace {

const Overrides kDropout = {
    "model.resid_pdrop=0.1", "model.embd_pdrop=0.2", "model.attn_pdrop=0.15"};

class RecomputeBits : public testing::TestWithParam<const char*> {};

TEST_P(RecomputeBits, AreThoseOfKeeping) {
  const std::vector<Overrides> models = {
      {},
      kDropout + Overrides{"data.mask_document_ends=true"},
      Overrides{"model.family=gpt2"} + kDropout,
      {"model.tie_word_embeddings=true",
       "training.precision=bf16_autocast",
       "training.microbatch_size=1"}};
  const std::vector<Overrides> modes = {
      {"memory.recompute=selective"},
      {"memory.recompute=full"},
      {"memory.recompute=every_k", "memory.recompute_layers=3"}};
  const Overrides base =
      plan_overrides(GetParam()) + Overrides{"parallel.bucket_bytes=1000"};
  for (const Overrides& model : models) {
    const std::vector<RankEnd> kept = train_two_steps(base + model);
    for (const Overrides& mode : modes) {
      SCOPED_TRACE(testing::PrintToString(model + mode));
      expect_same_bits(train_two_steps(base + model + mode), kept);
    }
  }
}

TEST_P(RecomputeBits, AreThoseOfKeepingWithTheSequenceSplit) {
  const Overrides base =
      plan_overrides(GetParam()) + kDropout +
      Overrides{"parallel.sequence_parallel=true", "model.family=gpt2"};
  const std::vector<RankEnd> kept = train_two_steps(base);
  for (const char* mode : {"selective", "full", "every_k"}) {
    SCOPED_TRACE(mode);
    expect_same_bits(
        train_two_steps(base +
                        Overrides{std::string("memory.recompute=") + mode}),
        kept);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans,
                         RecomputeBits,
                         testing::Values("tp1",
                                         "tp2",
                                         "pp2",
                                         "dp2",
                                         "dp2_tp2_pp2",
                                         "dp2_zero1",
                                         "dp2_pp2_zero2"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

// A forward pass sums what a tensor-parallel one does, in the same order; only
// the sums over tokens of replicated parameters are taken in parts.
TEST(SequenceParallel, HasTheLossOfTensorParallelBitForBit) {
  for (const char* family : {"llama", "gpt2"}) {
    const Overrides base =
        kDropout +
        Overrides{"parallel.tp=4", std::string("model.family=") + family};
    const auto whole = train_two_steps(base);
    const auto split =
        train_two_steps(base + Overrides{"parallel.sequence_parallel=true"});
    EXPECT_EQ(whole[0].losses[0], split[0].losses[0]);
    EXPECT_NEAR(whole[0].losses[1], split[0].losses[1], 1e-10);
  }
}

}  // namespace
}  // namespace triax
