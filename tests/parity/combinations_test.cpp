// SPDX-License-Identifier: Apache-2.0
// Suspicions about parts that meet: each was a place where a layout could have
// computed something else than one rank.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "triax/base/error.h"
#include "triax/comm/emulation.h"
#include "triax/train/gather.h"

namespace triax {
namespace {

void expect_equal(const Overrides& overrides, int64_t num_steps = 2) {
  const VerifyOptions options{.num_steps = num_steps};
  const VerifyReport report =
      verify_layout(checked_tiny_run(overrides), options);
  EXPECT_TRUE(report.is_equal())
      << to_text(report) << "\nrepeat: " << verify_command(overrides, options);
}

// 480 samples are an epoch: five steps of 240 take two and a half.
TEST(Combinations, StepsAcrossEpochs) {
  for (const char* plan : {"dp2_tp2", "dp3_pp2", "dp4"}) {
    expect_equal(
        plan_overrides(plan) + Overrides{"training.global_batch_size=240",
                                         "training.microbatch_size=20",
                                         "model.resid_pdrop=0.1"},
        5);
  }
}

TEST(Combinations, StepsBeyondTheScheduleOfTheLearningRate) {
  for (const char* schedule : {"cosine", "linear", "wsd", "constant"}) {
    expect_equal(plan_overrides("tp2_pp2") +
                     Overrides{std::string("optimizer.schedule=") + schedule,
                               "optimizer.min_lr=1e-3",
                               "training.steps=3"},
                 5);
  }
}

// Padding has no gradient, so AdamW divides 0 by eps there: with an eps of 0,
// or one that is 0 in fp32, it was NaN and spoiled the real elements beside it,
// where one rank, which has no padding, was right.
TEST(Combinations, PaddingWithTheLeastEps) {
  for (const char* precision : {"fp64", "fp32"}) {
    const Overrides run = {std::string("training.precision=") + precision,
                           "parallel.tp=2",
                           "model.vocab_size=11",
                           "model.intermediate_size=23"};
    expect_equal(run + Overrides{"optimizer.eps=1e-30"});
    EXPECT_THROW(checked_tiny_run(run + Overrides{"optimizer.eps=0"}), Error);
  }
}

TEST(Combinations, MicrobatchesFewerThanStages) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    for (const char* size : {"12", "6"}) {
      expect_equal(plan_overrides("pp4_tp2") +
                   Overrides{std::string("parallel.schedule=") + schedule,
                             std::string("training.microbatch_size=") + size});
    }
  }
}

TEST(Combinations, PatternsOnATiedEmbedding) {
  for (const char* plan : {"pp2", "tp2_pp2", "dp2_pp2"}) {
    expect_equal(plan_overrides(plan) +
                 Overrides{"model.tie_word_embeddings=true",
                           "parallel.bucket_bytes=1",
                           "optimizer.group=[{pattern=\"*embed_tokens*\", "
                           "lr=5e-3, weight_decay=0.5}]"});
    expect_equal(plan_overrides(plan) +
                 Overrides{"model.tie_word_embeddings=true",
                           "optimizer.freeze=[\"*embed_tokens*\", "
                           "\"model.layers.0.*\"]"});
  }
}

// Sequences of one token, labels that begin a document left out: many
// microbatches, and replicas' whole parts, have no valid token.
TEST(Combinations, ReplicasWithoutAValidToken) {
  for (const char* plan : {"dp4", "dp2_tp2_pp2", "pp2"}) {
    expect_equal(
        plan_overrides(plan) + Overrides{"data.sequence_length=1",
                                         "data.mask_document_ends=true",
                                         "training.microbatch_size=1",
                                         "training.global_batch_size=4"},
        8);
  }
}

TEST(Combinations, GroupsThatDoNotTrain) {
  expect_equal(plan_overrides("tp2_pp2") +
               Overrides{"optimizer.group=[{pattern=\"model.layers.1.*\", "
                         "lr=0.0, weight_decay=0.5}]"});
  expect_equal(plan_overrides("dp2_pp2") +
               Overrides{"optimizer.freeze=[\"model.layers.2.*\", "
                         "\"model.layers.3.*\", \"model.norm.weight\", "
                         "\"lm_head.weight\"]"});
}

TEST(Combinations, DecayedNormsAreReplicas) {
  for (const char* family : {"llama", "gpt2"}) {
    expect_equal(plan_overrides("dp2_tp2_pp2") +
                 Overrides{std::string("model.family=") + family,
                           family == std::string("llama")
                               ? "optimizer.group=[{pattern=\"*norm*\", "
                                 "lr=5e-2, weight_decay=0.5}]"
                               : "optimizer.group=[{pattern=\"*ln_*\", "
                                 "lr=5e-2, weight_decay=0.5}]"});
  }
}

TEST(Combinations, PrecisionsWithAllThatSplitsAnEnd) {
  for (const char* precision : {"fp32", "bf16_autocast"}) {
    expect_equal(plan_overrides("dp2_tp2_pp2") +
                     Overrides{std::string("training.precision=") + precision,
                               "model.tie_word_embeddings=true",
                               "model.num_key_value_heads=1",
                               "model.vocab_size=13",
                               "training.label_smoothing=0.1",
                               "training.z_loss=0.01",
                               "data.mask_document_ends=true",
                               "training.gradient_clipping=0.05"},
                 4);
  }
}

/// The weights on world rank 0 after three steps.
TensorMap weights_after(
    const Overrides& overrides,
    const std::function<void(Trainer&, DeviceMesh&, int step)>& before_step) {
  const RunConfig config = checked_tiny_run(overrides);
  TensorMap weights;
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    for (int step = 0; step < 3; ++step) {
      before_step(trainer, mesh, step);
      trainer.step();
    }
    GatheredTensors gathered;
    trainer.with_whole_weights([&] {
      gathered =
          gather_logical(config, mesh, trainer.rank_model().slots, weight_of);
    });
    if (mesh.rank() == 0) {
      EXPECT_TRUE(gathered.drifted.empty());
      weights = std::move(gathered.tensors);
    }
  });
  return weights;
}

void expect_same_bits(const TensorMap& a, const TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (const auto& [name, tensor] : a) {
    EXPECT_TRUE(at::equal(tensor, b.at(name))) << name;
  }
}

TEST(Combinations, ValidationBetweenStepsChangesNothing) {
  for (const char* plan : {"pp2", "dp2_tp2", "dp2_tp2_pp2"}) {
    const Overrides run =
        plan_overrides(plan) + Overrides{"data.validation=0.1",
                                         "training.validate_every=1",
                                         "model.resid_pdrop=0.1",
                                         "model.attn_pdrop=0.1"};
    expect_same_bits(weights_after(run, [](Trainer&, DeviceMesh&, int) {}),
                     weights_after(run, [](Trainer& trainer, DeviceMesh&, int) {
                       trainer.validate();
                     }));
  }
}

TEST(Combinations, SlowLinksChangeNothing) {
  const Overrides run =
      plan_overrides("dp2_tp2_pp2") + Overrides{"parallel.bucket_bytes=500",
                                                "training.microbatch_size=1",
                                                "model.vocab_size=13"};
  const auto make_slow = [](Trainer&, DeviceMesh& mesh, int step) {
    if (step > 0) {
      return;
    }
    for (const Axis axis : {Axis::kTp, Axis::kPp, Axis::kDp}) {
      mesh.group(axis).emulate({.latency_seconds = 2e-4,
                                .bytes_per_second = 1e8,
                                .jitter = 0.5,
                                .seed = 3});
    }
  };
  expect_same_bits(weights_after(run, [](Trainer&, DeviceMesh&, int) {}),
                   weights_after(run, make_slow));
}

}  // namespace
}  // namespace triax
