// SPDX-License-Identifier: Apache-2.0
// ZeRO against plain data parallel: the same bits, and the bytes of the
// formula.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/support/layout_run.h"
#include "tests/support/run_ranks.h"
#include "tests/support/some_steps.h"
#include "tests/support/tensors.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/tracker.h"
#include "triax/plan/model_stats.h"
#include "triax/plan/sharding.h"
#include "triax/plan/zero_stages.h"
#include "triax/train/gather.h"

namespace triax {
namespace {

Overrides zero_overrides(int zero, int64_t bucket_bytes) {
  return {fmt::format("parallel.zero={}", zero),
          fmt::format("parallel.bucket_bytes={}", bucket_bytes)};
}

/// Ways to gather parameters.
const std::vector<Overrides>& gathering() {
  static const std::vector<Overrides> ways = {
      {"parallel.zero=3", "parallel.bucket_bytes=1"},
      {"parallel.zero=3", "parallel.bucket_bytes=3000", "parallel.prefetch=0"},
      {"parallel.zero=3", "parallel.prefetch=3"},
      {"parallel.zero=3", "parallel.reshard_after_forward=false"}};
  return ways;
}

struct BitsCase {
  std::string name;
  Overrides overrides;
};

void PrintTo(const BitsCase& bits_case, std::ostream* out) {
  *out << bits_case.name;
}

class ZeroBits : public testing::TestWithParam<BitsCase> {};

// One microbatch: replicas are all there is to sum, in rank order.
TEST_P(ZeroBits, AreThoseOfPlainReplicasWithOneMicrobatch) {
  const Overrides base =
      GetParam().overrides + Overrides{"training.gradient_clipping=0.05"};
  const SomeSteps plain = run_of(base);
  for (const int zero : {0, 1, 2}) {
    for (const int64_t bucket_bytes : {1, 3000, 25 << 20}) {
      expect_same_bits(
          run_of(base + zero_overrides(zero, bucket_bytes)),
          plain,
          fmt::format("zero {}, buckets of {}", zero, bucket_bytes));
    }
  }
  for (const Overrides& way : gathering()) {
    expect_same_bits(run_of(base + way), plain, way.back());
  }
}

// Several microbatches: stage 1 still sums them before the replicas; stage 2
// after them, whatever the buckets.
TEST_P(ZeroBits, DoNotDependOnBucketsWithSeveralMicrobatches) {
  const Overrides base =
      GetParam().overrides + Overrides{"training.microbatch_size=1"};
  const SomeSteps plain = run_of(base);
  expect_same_bits(run_of(base + zero_overrides(1, 3000)), plain, "zero 1");
  const SomeSteps sharded = run_of(base + zero_overrides(2, 1));
  for (const int64_t bucket_bytes : {3000, 25 << 20}) {
    expect_same_bits(run_of(base + zero_overrides(2, bucket_bytes)),
                     sharded,
                     fmt::format("zero 2, buckets of {}", bucket_bytes));
  }
  for (const Overrides& way : gathering()) {
    expect_same_bits(run_of(base + way), sharded, way.back());
  }
  const bool is_fp64 =
      checked_tiny_run(base).training.precision == Precision::kFp64;
  for (size_t step = 0; step < plain.norms.size(); ++step) {
    EXPECT_NEAR(sharded.norms[step],
                plain.norms[step],
                (is_fp64 ? 1e-9 : 1e-2) * plain.norms[step]);
  }
}

const Overrides kGpt2 = {"model.family=gpt2", "model.vocab_size=11"};

INSTANTIATE_TEST_SUITE_P(
    Layouts,
    ZeroBits,
    testing::Values(BitsCase{"dp2",
                             {"parallel.dp=2",
                              "training.microbatch_size=6",
                              "training.precision=fp32"}},
                    BitsCase{"dp3",
                             {"parallel.dp=3",
                              "training.microbatch_size=4",
                              "optimizer.group=[{pattern=\"*mlp*\", lr=5e-3, "
                              "weight_decay=0.5}]",
                              "optimizer.freeze=[\"*o_proj*\"]"}},
                    BitsCase{
                        "dp4",
                        kGpt2 + Overrides{"parallel.dp=4",
                                          "training.microbatch_size=3",
                                          "training.precision=bf16_autocast"}},
                    BitsCase{"dp2_tp2",
                             {"parallel.dp=2",
                              "parallel.tp=2",
                              "model.num_key_value_heads=1",
                              "training.microbatch_size=6"}},
                    BitsCase{"dp2_pp2",
                             kGpt2 + Overrides{"parallel.dp=2",
                                               "parallel.pp=2",
                                               "training.microbatch_size=6",
                                               "training.precision=fp32"}}),
    [](const auto& info) { return info.param.name; });

// At any instant gradients take their shard and two buckets, whichever way the
// microbatches go through the stages.
TEST(ZeroBytes, GradientsTakeTheShardAndTwoBuckets) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    const RunConfig config =
        checked_tiny_run({"parallel.dp=2",
                          "parallel.pp=2",
                          "parallel.zero=2",
                          "parallel.bucket_bytes=3000",
                          "model.tie_word_embeddings=true",
                          "training.global_batch_size=8",
                          "training.microbatch_size=1",
                          std::string("parallel.schedule=") + schedule});
    ASSERT_EQ(config.num_microbatches(), 4);
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      for (int step = 0; step < 3; ++step) {
        trainer.step();
      }
      const StateBytesOfRank bytes = state_bytes_of_rank(
          config,
          parameter_layouts(config.model, trainer.rank_model().part, 1, 0));
      EXPECT_EQ(trainer.trained().gradient_bytes(), bytes.gradients);
      EXPECT_EQ(trainer.trained().bucket_bytes(), 2 * bytes.largest_bucket)
          << schedule << " stage " << mesh.coord().pp;
    });
  }
}

// Beside its shard a rank holds two units at most, whichever way the
// microbatches go; the stages have three and four of them.
TEST(ZeroBytes, ParametersTakeTheShardAndTwoUnits) {
  for (const char* more : {"parallel.schedule=1f1b",
                           "parallel.schedule=gpipe",
                           "memory.recompute=full",
                           "training.precision=bf16_autocast",
                           "parallel.prefetch=0",
                           "parallel.prefetch=2",
                           "parallel.reshard_after_forward=false"}) {
    const RunConfig config = checked_tiny_run({"parallel.dp=2",
                                               "parallel.pp=2",
                                               "parallel.zero=3",
                                               "model.num_hidden_layers=6",
                                               "model.tie_word_embeddings=true",
                                               "data.validation=0.1",
                                               "training.validate_every=1",
                                               "training.global_batch_size=8",
                                               "training.microbatch_size=1",
                                               more});
    train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
      for (int step = 0; step < 3; ++step) {
        trainer.step();
        trainer.validate();
      }
      const StateBytesOfRank bytes = state_bytes_of_rank(
          config,
          parameter_layouts(config.model, trainer.rank_model().part, 1, 0));
      const int64_t gathered = trainer.trained().most_gathered_bytes();
      EXPECT_EQ(trainer.trained().parameter_bytes(), bytes.parameters);
      EXPECT_EQ(gathered, bytes.gathered) << more;
      // Nothing of it is left between two steps.
      EXPECT_LT(this_rank_memory().use().current[MemoryCategory::kParameters],
                bytes.parameters + 1000)
          << more;
    });
  }
}

/// 10.7 M parameters.
Overrides large_run(int dp, int zero, const std::string& precision) {
  return {"model.hidden_size=384",
          "model.intermediate_size=1152",
          "model.num_attention_heads=6",
          "model.vocab_size=4000",
          "model.initializer_range=0.02",
          "data.sequence_length=4",
          "training.precision=" + precision,
          "training.microbatch_size=1",
          "parallel.bucket_bytes=1MiB",
          fmt::format("training.global_batch_size={}", dp),
          fmt::format("parallel.dp={}", dp),
          fmt::format("parallel.zero={}", zero)};
}

struct ElementBytes {
  const char* precision;
  double parameter;
  double gradient;
  double optimizer;  // AdamW's moments, and a master beside a 16-bit parameter
};

class ZeroBytes : public testing::TestWithParam<ElementBytes> {};

// What is allocated, against the formula: parameters divided by dp in stage 3,
// gradients from stage 2 on, the optimizer's state from stage 1 on; and against
// the memory model.
TEST_P(ZeroBytes, AreThoseOfTheFormula) {
  const ElementBytes& each = GetParam();
  for (const int dp : {1, 2, 4}) {
    for (const int zero : {0, 1, 2, 3}) {
      const RunConfig config =
          checked_tiny_run(large_run(dp, zero, each.precision));
      const double numel = 2.0 * 4000 * 384 + 384 +
                           4.0 * (4 * 384 * 384 + 3 * 384 * 1152 + 2 * 384);
      const auto share_from = [&](int stage) { return zero >= stage ? dp : 1; };
      std::mutex mutex;
      int64_t optimizer_bytes = 0;
      train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
        trainer.step();
        const TrainedParameters& trained = trainer.trained();
        const StateBytesOfRank bytes = state_bytes_of_rank(
            config,
            parameter_layouts(config.model, trainer.rank_model().part, 1, 0));
        EXPECT_EQ(trained.parameter_bytes(), bytes.parameters);
        EXPECT_EQ(trained.gradient_bytes(), bytes.gradients);
        EXPECT_EQ(trained.bucket_bytes(), bytes.buckets);
        EXPECT_LE(trained.optimizer_bytes(), bytes.optimizer);
        const auto expect_near = [&](int64_t nbytes, double expected) {
          EXPECT_NEAR(static_cast<double>(nbytes), expected, 0.01 * expected)
              << "dp " << dp << " zero " << zero;
        };
        expect_near(trained.parameter_bytes(),
                    each.parameter * numel / share_from(3));
        expect_near(trained.gradient_bytes(),
                    each.gradient * numel / share_from(2));
        expect_near(trained.optimizer_bytes(),
                    each.optimizer * numel / share_from(1));
        EXPECT_LE(trained.most_gathered_bytes(), bytes.gathered);
        EXPECT_EQ(trained.most_gathered_bytes() > 0, zero == 3 && dp > 1);
        const std::lock_guard lock(mutex);
        optimizer_bytes += trained.optimizer_bytes();
        if (zero == 0) {
          EXPECT_EQ(trained.optimizer_bytes(), bytes.optimizer);
        }
      });
      // Nothing is owned twice.
      EXPECT_EQ(
          optimizer_bytes,
          static_cast<int64_t>(each.optimizer * numel) * (zero == 0 ? dp : 1));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions,
                         ZeroBytes,
                         testing::Values(ElementBytes{"fp32", 4, 4, 8},
                                         ElementBytes{"bf16", 2, 4, 12}),
                         [](const auto& info) {
                           return std::string(info.param.precision);
                         });

// Case 23, through the trainer: copies of a tied weight on four ranks get the
// same gradient in every stage.
TEST(Case23, TiedGradientsAreThoseOfPlainReplicasInEveryStage) {
  std::vector<at::Tensor> gradients;
  for (const int zero : {0, 1, 2, 3}) {
    const RunConfig config =
        checked_tiny_run({"parallel.dp=2",
                          "parallel.pp=2",
                          "model.tie_word_embeddings=true",
                          "training.microbatch_size=6",
                          fmt::format("parallel.zero={}", zero)});
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.on_gradients = [&] {
        GatheredTensors gathered = gather_logical(
            config, mesh, trainer.rank_model().slots, gradient_of);
        if (mesh.rank() == 0) {
          EXPECT_THAT(gathered.drifted, testing::IsEmpty());
          gradients.push_back(gathered.tensors.at("model.embed_tokens.weight"));
        }
      };
      trainer.step();
    });
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[2]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[3]));
}

// Parts of the batch are whole replicas, or single microbatches with stage 2;
// both estimate one number.
TEST(ZeroNoiseScale, IsEstimatedInEveryStage) {
  for (const int zero : {0, 1, 2, 3}) {
    const RunConfig config =
        checked_tiny_run({"parallel.dp=2",
                          "training.microbatch_size=3",
                          fmt::format("parallel.zero={}", zero)});
    train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
      trainer.step();
      EXPECT_EQ(trainer.trained().num_parts(), zero >= 2 ? 4 : 2);
      EXPECT_GT(trainer.trained().part_squares().value(), 0.0);
    });
  }
}

/// A rank's bytes while it makes its model and when it trains.
struct Start {
  int64_t start = 0;
  int64_t step = 0;
};

/// Trains with a third of the parameters' bytes as memory.limit.
Start start_within_a_third(const Overrides& overrides) {
  const RunConfig config =
      checked_tiny_run(overrides + Overrides{"model.hidden_size=96",
                                             "model.intermediate_size=256",
                                             "model.num_hidden_layers=32",
                                             "model.vocab_size=64",
                                             "model.num_attention_heads=4",
                                             "data.sequence_length=4",
                                             "training.precision=fp32",
                                             "training.microbatch_size=1"});
  const auto whole = 4 * num_parameters(config.model);
  Start most;
  std::mutex mutex;
  run_ranks_on_board(
      config.world_size(),
      [&](std::unique_ptr<Group> world, const std::shared_ptr<Board>& board) {
        MemoryTracker& memory = this_rank_memory();
        memory.set_limit(static_cast<int64_t>(whole / 3));
        DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
        Recorder recorder(board, mesh.rank());
        Trainer trainer(config, mesh, recorder);
        const int64_t start = memory.use().peak.total();
        memory.reset_peak();
        trainer.step();
        trainer.step();
        const std::lock_guard lock(mutex);
        most.start = std::max(most.start, start);
        most.step = std::max(most.step, memory.use().peak.total());
      });
  return most;
}

// The whole model is three times what a rank may have.
TEST(ZeroStart, AModelThreeTimesTheLimitStartsAndTrains) {
  for (const Overrides& layout : {Overrides{"parallel.dp=16",
                                            "parallel.zero=3",
                                            "parallel.bucket_bytes=100000",
                                            "memory.recompute=full",
                                            "training.global_batch_size=16",
                                            "optimizer.name=sgd"},
                                  Overrides{"parallel.tp=4",
                                            "parallel.pp=4",
                                            "training.global_batch_size=1"}}) {
    const Start bytes = start_within_a_third(layout);
    EXPECT_LE(bytes.start, bytes.step) << layout.front();
  }
  EXPECT_THROW(start_within_a_third({"parallel.dp=2",
                                     "parallel.zero=2",
                                     "training.global_batch_size=2",
                                     "optimizer.name=sgd"}),
               OutOfMemory);
}

}  // namespace
}  // namespace triax
