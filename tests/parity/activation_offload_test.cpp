// SPDX-License-Identifier: Apache-2.0
// Activations that lie in a file in between change no bit of loss, gradients
// and weights.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/step_bits.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

/// Tensors of some KB, so that most of what is kept moves.
const Overrides kModel = {"model.hidden_size=32",
                          "model.intermediate_size=48",
                          "data.sequence_length=24",
                          "model.resid_pdrop=0.1",
                          "model.embd_pdrop=0.2",
                          "model.attn_pdrop=0.15",
                          "data.mask_document_ends=true"};

/// The folder need not be a disk's: bits are what counts here.
const Overrides kOnFile = {"memory.offload=nvme",
                           "memory.offload_states=[\"activations\"]",
                           "memory.offload_dir=/dev/shm"};

/// Trains with activations on file, and looks that they have been there.
std::vector<RankEnd> train_on_file(const Overrides& overrides) {
  return train_two_steps(
      overrides + kOnFile, [](Trainer& trainer, DeviceMesh& mesh) {
        ASSERT_NE(trainer.activation_file(), nullptr);
        EXPECT_EQ(trainer.activation_file()->bytes_without_room(), 0);
        const MemoryUse use = this_rank_memory().use();
        // Later stages may keep no more than the input that they hold.
        if (mesh.is_first_stage()) {
          EXPECT_GT(use.largest_on_disk, 0);
        }
        EXPECT_EQ(use.on_disk, 0);
      });
}

class ActivationOffloadBits : public testing::TestWithParam<const char*> {};

TEST_P(ActivationOffloadBits, AreThoseInMemory) {
  const std::vector<Overrides> variants = {
      {},
      {"memory.recompute=selective", "parallel.schedule=gpipe"},
      {"memory.recompute=every_k", "training.precision=fp32"},
      {"model.family=gpt2", "memory.recompute=full"},
      {"model.family=gpt2",
       "parallel.sequence_parallel=true",
       "memory.recompute=selective",
       "optimizer.freeze=[\"transformer.h.0.*\"]"},
      {"parallel.sequence_parallel=true",
       "training.precision=bf16_autocast",
       "model.tie_word_embeddings=true"}};
  for (const Overrides& variant : variants) {
    const Overrides overrides = plan_overrides(GetParam()) + kModel + variant;
    SCOPED_TRACE(testing::PrintToString(variant));
    expect_same_bits(train_on_file(overrides), train_two_steps(overrides));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans,
    ActivationOffloadBits,
    testing::Values("tp1", "tp2_pp2", "pp4", "dp2_pp2_zero2", "dp3_zero1"),
    [](const auto& info) { return std::string(info.param); });

TEST(ActivationOffload, IsInTheFiguresOfTheRanksFiles) {
  const Overrides overrides = kModel + kOnFile;
  const auto train = [&](const Overrides& more, auto look) {
    train_two_steps(overrides + more, [&](Trainer& trainer, DeviceMesh&) {
      look(trainer, trainer.offload_use());
    });
  };
  train({}, [](Trainer& trainer, const OffloadUse& use) {
    EXPECT_EQ(use.file_bytes, trainer.activation_file()->file_bytes());
    EXPECT_GT(use.moved.written, 0);
    EXPECT_GT(use.moved.read, 0);
  });
  train({"memory.offload_states=[\"optimizer\", \"activations\"]"},
        [](Trainer& trainer, const OffloadUse& use) {
          const OffloadedShard& shard = *trainer.trained().offloaded();
          EXPECT_EQ(use.file_bytes,
                    trainer.activation_file()->file_bytes() + shard.nbytes());
          EXPECT_GT(use.moved.written, shard.moved().written);
        });
  train_two_steps(kModel, [](Trainer& trainer, DeviceMesh&) {
    EXPECT_EQ(trainer.offload_use().file_bytes, 0);
  });
}

TEST(ActivationOffload, IsProvedByVerify) {
  const RunConfig config =
      checked_tiny_run(plan_overrides("dp2_tp2_pp2_zero1") + kModel + kOnFile);
  const VerifyReport report = verify_layout(config);
  EXPECT_TRUE(report.is_equal()) << to_text(report);
}

TEST(ActivationOffload, WhatAFileRunsIntoIsTheRunsError) {
  const Overrides overrides =
      kModel + kOnFile + Overrides{"memory.offload_dir=/no/such/folder"};
  try {
    train_two_steps(overrides);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace triax
