// SPDX-License-Identifier: Apache-2.0
// Recomputing changes no bit of loss, gradients and weights (CASES 30).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/layout_run.h"
#include "tests/support/tensors.h"

namespace triax {
namespace {

/// What a rank has after two steps.
struct RankEnd {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<at::Tensor> tensors;  // gradients and weights
};

std::vector<RankEnd> train_two_steps(const Overrides& overrides) {
  const RunConfig config = checked_tiny_run(overrides);
  std::vector<RankEnd> ends(config.world_size());
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    RankEnd& end = ends[mesh.rank()];
    trainer.on_gradients = [&] {
      for (const ParameterSlot* slot : trainer.rank_model().slots) {
        if (slot->tensor.grad().defined()) {
          end.tensors.push_back(slot->tensor.grad().clone());
        }
      }
    };
    for (int step = 0; step < 2; ++step) {
      const StepStats stats = trainer.step();
      end.losses.push_back(stats.loss);
      end.norms.push_back(stats.grad_norm);
    }
    for (const ParameterSlot* slot : trainer.rank_model().slots) {
      end.tensors.push_back(slot->tensor.detach().clone());
    }
  });
  return ends;
}

void expect_same_bits(const std::vector<RankEnd>& a,
                      const std::vector<RankEnd>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t rank = 0; rank < a.size(); ++rank) {
    EXPECT_EQ(a[rank].losses, b[rank].losses);
    EXPECT_EQ(a[rank].norms, b[rank].norms);
    ASSERT_EQ(a[rank].tensors.size(), b[rank].tensors.size());
    for (size_t i = 0; i < a[rank].tensors.size(); ++i) {
      EXPECT_TRUE(bits_equal(a[rank].tensors[i], b[rank].tensors[i]))
          << "rank " << rank << ", tensor " << i;
    }
  }
}

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
