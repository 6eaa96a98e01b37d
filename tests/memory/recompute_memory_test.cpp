// SPDX-License-Identifier: Apache-2.0
// What is kept for backward under each recompute mode, against the formulae of
// Korthikanti et al. 2022 and their like for flash attention and SwiGLU: bytes
// of a layer with elements of two bytes, h hidden, f intermediate, t tp ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/layout_run.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

constexpr double kHidden = 128;
constexpr double kIntermediate = 352;
constexpr double kLayers = 6;
constexpr double kTokens = 4 * 256;
constexpr double kQueryHeadsPerKey = 2;

/// A vocabulary that counts for little beside the layers.
const Overrides kModel = {"model.hidden_size=128",
                          "model.intermediate_size=352",
                          "model.num_hidden_layers=6",
                          "model.num_attention_heads=8",
                          "model.vocab_size=16",
                          "model.max_position_embeddings=256",
                          "data.sequence_length=256",
                          "training.microbatch_size=4",
                          "training.global_batch_size=4"};

struct Kept {
  std::string mode;
  double of_layer = 0;    // bytes a token, elements of two bytes
  double live_layer = 0;  // of the layer whose backward runs
};

std::vector<Kept> modes_of_llama(double t) {
  const double h = kHidden, f = kIntermediate;
  const double none = ((12 + 4 / kQueryHeadsPerKey) * h + 6 * f) / t;
  return {{"none", none},
          {"selective", none - (4 * h + 2 * f) / t},
          {"full", 2 * h / t, none}};
}

std::vector<Kept> modes_of_gpt2(double t) {
  const double h = kHidden, f = kIntermediate;
  const double none = ((12 + 4) * h + 4 * f) / t;
  return {{"none", none},
          {"selective", none - (4 * h + 2 * f) / t},
          {"full", 2 * h / t, none}};
}

/// The most that rank 0 held in activations; the layers' own alone.
double measured(const Overrides& overrides) {
  double largest = 0;
  train_layout(
      checked_tiny_run(kModel + overrides),
      [&](Trainer& trainer, DeviceMesh& mesh) {
        trainer.step();
        if (mesh.rank() == 0) {
          largest = static_cast<double>(
              this_rank_memory().use().largest[MemoryCategory::kActivations]);
        }
      });
  return largest;
}

void expect_within_a_tenth(const Kept& kept, const Overrides& overrides) {
  const double in_16_bits =
      kTokens * (kLayers * kept.of_layer + kept.live_layer);
  for (const bool is_bf16 : {false, true}) {
    const double expected = (is_bf16 ? 1 : 2) * in_16_bits;
    const double found =
        measured(overrides + Overrides{"memory.recompute=" + kept.mode,
                                       is_bf16 ? "training.precision=bf16"
                                               : "training.precision=fp32"});
    EXPECT_NEAR(found / expected, 1.0, 0.1)
        << kept.mode << (is_bf16 ? " bf16: " : " fp32: ") << found << " bytes, "
        << expected << " expected";
  }
}

class RecomputeMemory : public testing::TestWithParam<int> {
 protected:
  Overrides split() const {
    return {"parallel.tp=" + std::to_string(GetParam()),
            GetParam() > 1 ? "parallel.sequence_parallel=true"
                           : "parallel.sequence_parallel=false"};
  }
};

TEST_P(RecomputeMemory, ALlamaLayerKeepsWhatTheFormulaSays) {
  for (const Kept& kept : modes_of_llama(GetParam())) {
    expect_within_a_tenth(kept,
                          split() + Overrides{"model.num_key_value_heads=4"});
  }
}

TEST_P(RecomputeMemory, AGpt2LayerKeepsWhatTheFormulaSays) {
  for (const Kept& kept : modes_of_gpt2(GetParam())) {
    expect_within_a_tenth(kept, split() + Overrides{"model.family=gpt2"});
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RecomputeMemory, testing::Values(1, 2));

}  // namespace
}  // namespace triax
