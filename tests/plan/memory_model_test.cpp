// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/memory_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/models.h"

namespace triax {
namespace {

RunConfig tiny_run() {
  RunConfig config;
  config.model = llama_model(10, 2, 8, 16, 2, 1);
  config.data.sequence_length = 4;
  config.parallel.dp = 1;
  config.training.microbatch_size = 2;
  config.training.global_batch_size = 8;
  return config;
}

using enum MemoryKind;

int64_t bytes_of(const StageMemory& stage, MemoryKind kind) {
  EXPECT_NE(stage.line_of(kind), nullptr) << kind_name(kind);
  return stage.bytes_of(kind);
}

int64_t bytes_of(const RunConfig& config, MemoryKind kind) {
  return bytes_of(predict_memory(config).at(0), kind);
}

TEST(MemoryModel, MovesActivationsToAFile) {
  RunConfig kept = tiny_run();
  kept.parallel.pp = 2;
  kept.parallel.schedule = "gpipe";
  kept.training.microbatch_size = 1;
  kept.data.sequence_length = 4096;
  RunConfig moved = kept;
  moved.memory.offload = Offload::kNvme;
  moved.memory.offload_states = {"optimizer", "activations"};
  for (int pp = 0; pp < 2; ++pp) {
    const StageMemory before = predict_memory(kept)[pp];
    const StageMemory after = predict_memory(moved)[pp];
    EXPECT_FALSE(before.activation_offload);
    const ActivationOffload offload = after.activation_offload.value();
    EXPECT_EQ(offload.num_microbatches, 8);
    const int64_t live =
        bytes_of(before, kActivations) + bytes_of(before, kLogits);
    EXPECT_GE(offload.file_bytes(), live);
    EXPECT_LE(offload.file_bytes(), live + live / 16 + 8 * 50 * 4096);
    EXPECT_NEAR(offload.window_bytes, live / 8, 4096);
    // The widest is gate and up; a stage behind the first has its inputs.
    const int64_t inputs = pp == 0 ? 0 : 8 * 4096 * 8 * 4;
    EXPECT_EQ(bytes_of(after, kActivations),
              2 * offload.window_bytes + 4 * offload.buffer_bytes +
                  2 * 4096 * 32 * 4 + inputs);
    EXPECT_EQ(bytes_of(after, kLogits), bytes_of(before, kLogits) / 8);
    EXPECT_LT(after.total_bytes(), before.total_bytes());
  }
  moved.memory.offload = Offload::kHost;
  EXPECT_FALSE(predict_memory(moved)[0].activation_offload);
  moved.memory.offload = Offload::kNvme;
  moved.memory.offload_states = {"optimizer"};
  EXPECT_FALSE(predict_memory(moved)[0].activation_offload);
}

TEST(MemoryModel, CountsATinyModelByHand) {
  const std::vector<StageMemory> stages = predict_memory(tiny_run());
  ASSERT_EQ(stages.size(), 1u);
  const StageMemory& stage = stages[0];
  // embedding and head 80 each, final norm 8; a layer: norms 16, q 64, k and v
  // 32 each, out 64, gate, up and down 128 each
  const int64_t numel = 80 + 80 + 8 + 2 * (16 + 64 + 32 + 32 + 64 + 3 * 128);
  EXPECT_EQ(bytes_of(stage, kParameters), 4 * numel);
  // Each parameter takes a multiple of 64.
  const int64_t aligned = 128 + 128 + 64 + 2 * (128 + 128 + 64 + 256 + 128);
  EXPECT_EQ(bytes_of(stage, kGradients), 4 * aligned);
  EXPECT_EQ(bytes_of(stage, kOptimizer), 8 * numel);
  // 8 tokens; a layer: two norms' inputs and inverse rms, two inputs of
  // products, q, k, v and the result, a number a head, gate, up, product
  const int64_t layer = 8 * 4 * (2 * 9 + 2 * 8 + 8 + 4 + 4 + 8 + 2 + 3 * 16);
  const int64_t ends = 8 * 8 + 8 * 4 * (9 + 8);
  EXPECT_EQ(bytes_of(stage, kActivations), 2 * layer + ends);
  EXPECT_EQ(bytes_of(stage, kLogits), 8 * 4 * (10 + 1));
  EXPECT_EQ(bytes_of(stage, kPipeline), 0);
  EXPECT_EQ(bytes_of(stage, kWorking), 4 * 256 + 8 * 4 * 48);
  int64_t sum = 0;
  for (const MemoryLine& line : stage.lines) {
    sum += line.nbytes;
  }
  EXPECT_EQ(stage.total_bytes(), sum);
}

TEST(MemoryModel, PaddingIsStoredAndNamed) {
  RunConfig config = tiny_run();
  config.parallel.tp = 2;
  config.model.vocab_size = 12;
  const int64_t even = bytes_of(config, kParameters);
  config.model.vocab_size = 11;
  EXPECT_EQ(bytes_of(config, kParameters), even);
  // One row of the embedding and one of the head.
  EXPECT_THAT(memory_table(predict_memory(config)),
              testing::HasSubstr("at most 16 of padding"));
}

TEST(MemoryModel, OptimizerStateFollowsItsName) {
  RunConfig config = tiny_run();
  const int64_t parameters = bytes_of(config, kParameters);
  EXPECT_EQ(bytes_of(config, kOptimizer), 2 * parameters);
  config.optimizer.name = "sgd";
  EXPECT_EQ(bytes_of(config, kOptimizer), 0);
  config.optimizer.momentum = 0.9;
  EXPECT_EQ(bytes_of(config, kOptimizer), parameters);
}

TEST(MemoryModel, PrecisionSetsTheBytes) {
  RunConfig config = tiny_run();
  const int64_t parameters = bytes_of(config, kParameters);
  const int64_t logits = bytes_of(config, kLogits);
  config.training.precision = Precision::kFp64;
  EXPECT_EQ(bytes_of(config, kParameters), 2 * parameters);
  EXPECT_EQ(bytes_of(config, kLogits), 2 * logits);
  config.training.precision = Precision::kBf16Autocast;
  EXPECT_EQ(bytes_of(config, kParameters), parameters);
  EXPECT_EQ(bytes_of(config, kLogits), 8 * (2 * 10 + 4));
}

// 2 bytes of weight, 4 of gradient, and 12: master and moments.
TEST(MemoryModel, MastersAreCountedWithTheOptimizer) {
  RunConfig config = tiny_run();
  const int64_t parameters = bytes_of(config, kParameters);
  const int64_t gradients = bytes_of(config, kGradients);
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    config.training.precision = precision;
    EXPECT_EQ(bytes_of(config, kParameters), parameters / 2);
    EXPECT_EQ(bytes_of(config, kGradients), gradients);
    EXPECT_EQ(bytes_of(config, kOptimizer), 3 * parameters);
    EXPECT_EQ(bytes_of(config, kLogits), 8 * (2 * 10 + 4));
  }
  config.optimizer.name = "sgd";
  EXPECT_EQ(bytes_of(config, kOptimizer), parameters);
}

/// Bytes of one layer's activations: two models that differ by a layer.
double one_layer(RunConfig config) {
  const int64_t with = bytes_of(config, kActivations);
  config.model.num_hidden_layers -= 1;
  return static_cast<double>(with - bytes_of(config, kActivations));
}

// s b [8 h + ((4 + 4 k/a) h + 6 f) / t] with 16-bit elements; fp32 twice that,
// and 4 bytes a row for each norm and head, which the formula leaves out.
TEST(MemoryModel, LlamaLayerKeepsWhatTheFormulaSays) {
  RunConfig config = tiny_run();
  config.model = llama_model(1000, 3, 1024, 2816, 16, 4);
  config.data.sequence_length = 512;
  for (int tp : {1, 2, 4}) {
    config.parallel.tp = tp;
    const double h = 1024, f = 2816;
    const double sb = 512.0 * 2;
    const double formula = sb * (8 * h + ((4 + 4 * 0.25) * h + 6 * f) / tp);
    EXPECT_DOUBLE_EQ(one_layer(config), 2 * formula + sb * 4 * (2 + 16.0 / tp));
  }
}

// The formula itself, with the statistics in fp32.
TEST(MemoryModel, LlamaLayerInBf16KeepsWhatTheFormulaSays) {
  RunConfig config = tiny_run();
  config.model = llama_model(1000, 3, 1024, 2816, 16, 4);
  config.data.sequence_length = 512;
  config.training.precision = Precision::kBf16;
  const double sb = 512.0 * 2;
  const double formula = sb * (8 * 1024.0 + (4 + 4 * 0.25) * 1024 + 6 * 2816.0);
  EXPECT_DOUBLE_EQ(one_layer(config), formula + sb * 4 * (2 + 16.0));
}

// s b [8 h + ((4 + 4 k/a) h + 4 f) / t] for GeLU, likewise.
TEST(MemoryModel, Gpt2LayerKeepsWhatTheFormulaSays) {
  RunConfig config = tiny_run();
  config.model = gpt2_model(1000, 3, 256, 8, 512);
  config.data.sequence_length = 128;
  config.parallel.tp = 2;
  const double h = 256, sb = 128.0 * 2;
  const double formula = sb * (8 * h + (8 * h + 4 * 4 * h) / 2);
  EXPECT_DOUBLE_EQ(one_layer(config), 2 * formula + sb * 4 * (4 + 8 / 2));
}

// s b [(12 + 4 k/a) h + 6 f] / t with sequence parallelism; selective leaves
// out what norms give (4 h) and the gated product (2 f); full keeps 2 h.
TEST(MemoryModel, SequenceParallelAndRecomputeKeepWhatTheFormulasSay) {
  RunConfig config = tiny_run();
  config.model = llama_model(1000, 3, 1024, 2816, 16, 4);
  config.data.sequence_length = 512;
  config.parallel.sequence_parallel = true;
  for (int tp : {1, 2, 4}) {
    config.parallel.tp = tp;
    const double h = 1024, f = 2816;
    const double sb = 512.0 * 2;
    const double kept = sb * ((12 + 4 * 0.25) * h + 6 * f) / tp;
    const double rows = sb * 4 * (2 + 16.0) / tp;
    config.memory.recompute = Recompute::kNone;
    EXPECT_DOUBLE_EQ(one_layer(config), 2 * kept + rows);
    config.memory.recompute = Recompute::kSelective;
    EXPECT_DOUBLE_EQ(one_layer(config),
                     2 * (kept - sb * (4 * h + 2 * f) / tp) + rows);
    config.memory.recompute = Recompute::kFull;
    EXPECT_DOUBLE_EQ(one_layer(config), 2 * sb * 2 * h / tp);
    EXPECT_EQ(bytes_of(config, kRecomputed),
              static_cast<int64_t>(2 * kept + rows));
  }
}

TEST(MemoryModel, GroupsOfLayersKeepOneInput) {
  RunConfig config = tiny_run();
  config.model.num_hidden_layers = 5;
  config.memory.recompute = Recompute::kFull;
  const int64_t one = bytes_of(config, kRecomputed);
  const double input = one_layer(config);
  const int64_t full = bytes_of(config, kActivations);
  config.memory.recompute = Recompute::kEveryK;
  config.memory.recompute_layers = 2;  // groups of 2, 2 and 1
  EXPECT_EQ(bytes_of(config, kActivations),
            full - 2 * static_cast<int64_t>(input));
  EXPECT_EQ(bytes_of(config, kRecomputed), 2 * one);
  config.memory.recompute_layers = 100;
  EXPECT_EQ(bytes_of(config, kRecomputed), 5 * one);
}

TEST(MemoryModel, DropoutKeepsItsMasks) {
  RunConfig config = tiny_run();
  config.model = gpt2_model(1000, 3, 256, 8, 512);
  config.data.sequence_length = 128;
  const double none = one_layer(config);
  config.model.resid_pdrop = 0.1;
  EXPECT_EQ(one_layer(config) - none, 2 * 256 * 256);
  config.model.attn_pdrop = 0.1;
  EXPECT_EQ(one_layer(config) - none, 2 * 256 * 256 + 2.0 * 8 * 128 * 128 * 5);
}

TEST(MemoryModel, ScheduleSetsTheLiveMicrobatches) {
  RunConfig config = tiny_run();
  config.model.num_hidden_layers = 4;
  config.parallel.pp = 4;
  config.training.global_batch_size = 2 * 6;
  const auto live = [&](const std::string& schedule) {
    config.parallel.schedule = schedule;
    std::vector<int> counts;
    for (const StageMemory& stage : predict_memory(config)) {
      counts.push_back(stage.num_live_microbatches);
    }
    return counts;
  };
  EXPECT_EQ(live("1f1b"), (std::vector<int>{4, 3, 2, 1}));
  const int64_t first = bytes_of(config, kActivations);
  EXPECT_EQ(live("gpipe"), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(bytes_of(config, kActivations) * 4, first * 6);
}

TEST(MemoryModel, OnlyTheLastStageHasLogits) {
  RunConfig config = tiny_run();
  config.parallel.pp = 2;
  const std::vector<StageMemory> stages = predict_memory(config);
  EXPECT_EQ(bytes_of(stages[0], kLogits), 0);
  EXPECT_EQ(bytes_of(stages[1], kLogits), 8 * 4 * (10 + 1));
  // Stage 0 keeps two outputs and gets a gradient; stage 1 sends one.
  EXPECT_EQ(bytes_of(stages[0], kPipeline), 3 * 8 * 8 * 4);
  EXPECT_EQ(bytes_of(stages[1], kPipeline), 1 * 8 * 8 * 4);
}

// Two replicas: a bucket for each parameter, padded to two shards of 64.
TEST(MemoryModel, ZeroSplitsTheOptimizerThenTheGradients) {
  RunConfig config = tiny_run();
  config.parallel.dp = 2;
  config.parallel.bucket_bytes = 1;
  const int64_t parameters = bytes_of(config, kParameters);
  const int64_t padded =
      4 * (128 + 128 + 128 + 2 * (2 * 128 + 128 + 128 + 256 + 128));
  config.parallel.zero = 1;
  EXPECT_EQ(bytes_of(config, kParameters), padded);
  EXPECT_EQ(bytes_of(config, kGradients), padded);
  // Embedding and head 64 of 80, norms 8; qkv 64 of 128, out 64, up 128 of
  // 256, down 64 of 128.
  const int64_t most = 64 + 64 + 8 + 2 * (8 + 8 + 64 + 64 + 128 + 64);
  EXPECT_EQ(bytes_of(config, kOptimizer), 8 * most);
  config.parallel.zero = 2;
  EXPECT_EQ(bytes_of(config, kParameters), padded);
  EXPECT_EQ(bytes_of(config, kGradients), padded / 2);
  EXPECT_EQ(bytes_of(config, kBuckets), 2 * 4 * 256);
  EXPECT_EQ(bytes_of(config, kOptimizer), 8 * most);
  EXPECT_THAT(memory_table(predict_memory(config)),
              testing::HasSubstr("4 B x elements / 2, "));
  config.parallel.dp = 1;
  EXPECT_EQ(bytes_of(config, kParameters), parameters);
}

TEST(MemoryModel, TableHasARowForEachKindAndAColumnForEachStage) {
  RunConfig config = tiny_run();
  config.parallel.pp = 2;
  const std::string table = memory_table(predict_memory(config));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 9);
  EXPECT_THAT(table, testing::HasSubstr("stage 1"));
  EXPECT_THAT(table, testing::HasSubstr("adamw (2 x 4 B) x elements"));
}

// Parts of ceil(17 / 8) = 3 rows: the last ranks hold padding alone, of which
// no pattern says whether it is frozen.
TEST(MemoryModel, CountsWhatIsOnFileWhereARankHoldsPaddingAlone) {
  RunConfig config = tiny_run();
  config.model = llama_model(17, 2, 64, 16, 8, 8);
  config.parallel.tp = 8;
  config.memory.offload = Offload::kNvme;
  config.optimizer.freeze = {"*norm*"};
  const std::vector<StageMemory> stages = predict_memory(config);
  EXPECT_EQ(bytes_of(stages.at(0), kOptimizer), 0);
  EXPECT_GT(stages.at(0).disk_bytes(), 0);
}

// 7.5e9 parameters, fp16 weights and gradients, fp32 Adam, 64 replicas.
TEST(MemoryModel, ZeroStagesAreThoseOfThePaper) {
  const auto gigabytes = [](int zero_stage) {
    return zero_model_state_bytes(7.5e9, zero_stage, 64, {}) / 1e9;
  };
  EXPECT_DOUBLE_EQ(gigabytes(0), 120.0);
  EXPECT_NEAR(gigabytes(1), 31.41, 0.005);
  EXPECT_NEAR(gigabytes(2), 16.64, 0.005);
  EXPECT_DOUBLE_EQ(gigabytes(3), 1.875);
}

TEST(MemoryModel, EveryZeroStageIsTheSameOnOneReplica) {
  for (int zero_stage : {1, 2, 3}) {
    EXPECT_EQ(zero_model_state_bytes(1e6, zero_stage, 1, {}),
              zero_model_state_bytes(1e6, 0, 1, {}));
  }
}

}  // namespace
}  // namespace triax
