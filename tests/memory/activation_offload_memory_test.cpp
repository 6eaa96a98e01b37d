// SPDX-License-Identifier: Apache-2.0
// What is left of the activations in memory when they move to a file, and what
// the file has room for, against the memory model.
#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "tests/support/layout_run.h"
#include "triax/memory/tracker.h"
#include "triax/plan/memory_model.h"

namespace triax {
namespace {

const Overrides kModel = {"model.hidden_size=128",
                          "model.intermediate_size=352",
                          "model.num_hidden_layers=8",
                          "model.num_attention_heads=8",
                          "model.vocab_size=256",
                          "model.max_position_embeddings=128",
                          "data.sequence_length=128",
                          "training.precision=fp32",
                          "training.microbatch_size=4",
                          "training.global_batch_size=16"};

struct Measured {
  int64_t activations = 0;  // at the most, in memory
  int64_t on_disk = 0;
  int64_t file = 0;
};

/// By stage.
std::array<Measured, 2> measure(const RunConfig& config) {
  std::array<Measured, 2> stages;
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    trainer.step();
    const MemoryUse use = this_rank_memory().use();
    Measured& mine = stages[mesh.coord().pp];
    mine.activations = use.largest[MemoryCategory::kActivations];
    mine.on_disk = use.largest_on_disk;
    if (const ActivationFile* file = trainer.activation_file()) {
      mine.file = file->file_bytes();
      EXPECT_EQ(file->bytes_without_room(), 0);
    }
  });
  return stages;
}

/// With a stage's outputs, which its forward pass keeps too.
int64_t predicted_activations(const StageMemory& stage) {
  return stage.bytes_of(MemoryKind::kActivations) +
         stage.bytes_of(MemoryKind::kRecomputed) +
         stage.bytes_of(MemoryKind::kLogits) +
         stage.bytes_of(MemoryKind::kPipeline);
}

class ActivationOffloadMemory : public testing::TestWithParam<const char*> {};

TEST_P(ActivationOffloadMemory, IsWhatTheModelSays) {
  const Overrides offload = {"memory.offload=nvme",
                             "memory.offload_states=[\"activations\"]",
                             "memory.offload_dir=/dev/shm"};
  const Overrides overrides =
      kModel + plan_overrides("pp2") +
      Overrides{std::string("memory.recompute=") + GetParam(),
                "parallel.schedule=gpipe"};
  const RunConfig config = checked_tiny_run(overrides + offload);
  const auto kept = measure(checked_tiny_run(overrides));
  const auto moved = measure(config);
  for (int pp = 0; pp < 2; ++pp) {
    const StageMemory stage = predict_memory(config).at(pp);
    const auto predicted = static_cast<double>(predicted_activations(stage));
    const auto found = static_cast<double>(moved[pp].activations);
    const auto before = static_cast<double>(kept[pp].activations);
    std::cout << GetParam() << " stage " << pp << ": " << before << " → "
              << found << ", predicted " << predicted << ", on disk "
              << moved[pp].on_disk << " of " << moved[pp].file << "\n";
    EXPECT_LT(found, 1.05 * predicted);
    EXPECT_GT(found, 0.6 * predicted);
    EXPECT_LT(found, 0.75 * before);
    EXPECT_LE(moved[pp].on_disk, moved[pp].file);
    EXPECT_EQ(moved[pp].file, stage.activation_offload->file_bytes());
  }
}

TEST(ActivationOffload, TheFileHasRoomForWhatIsKept) {
  const Overrides dropout = {
      "model.resid_pdrop=0.1", "model.embd_pdrop=0.1", "model.attn_pdrop=0.1"};
  const std::vector<Overrides> models = {
      dropout + Overrides{"model.family=gpt2",
                          "parallel.tp=2",
                          "parallel.sequence_parallel=true"},
      dropout + Overrides{"parallel.tp=2",
                          "memory.recompute=selective",
                          "training.precision=bf16_autocast"},
      {"model.num_key_value_heads=2",
       "model.vocab_size=4096",
       "data.mask_document_ends=true",
       "memory.recompute=every_k"}};
  for (const Overrides& model : models) {
    SCOPED_TRACE(testing::PrintToString(model));
    const Measured moved = measure(
        checked_tiny_run(kModel +
                         Overrides{"memory.offload=nvme",
                                   "memory.offload_states=[\"activations\"]",
                                   "memory.offload_dir=/dev/shm"} +
                         model))[0];
    // And not for much more.
    EXPECT_GT(static_cast<double>(moved.on_disk), 0.5 * moved.file);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes,
                         ActivationOffloadMemory,
                         testing::Values("none", "selective", "full"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace triax
