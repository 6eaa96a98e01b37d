// SPDX-License-Identifier: Apache-2.0
// Cases from public reports, with their right values, and what must hold of
// the ranks' parts of a model. Numbers have gaps: other cases stand beside
// the folder they concern.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>

#include "tests/support/layout_run.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tensors.h"
#include "triax/base/ignored_label.h"
#include "triax/data_parallel/bucket.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/mesh/tensor_group.h"
#include "triax/model/loss.h"
#include "triax/plan/logical_parameters.h"
#include "triax/plan/model_stats.h"
#include "triax/plan/sharding.h"
#include "triax/schedule/schedule.h"
#include "triax/train/gather.h"

namespace triax {
namespace {

GatheredTensors gather_on_first(const RunConfig& config,
                                Trainer& trainer,
                                DeviceMesh& mesh,
                                SlotTensor which) {
  GatheredTensors gathered;
  trainer.with_whole_weights([&] {
    gathered = gather_logical(config, mesh, trainer.rank_model().slots, which);
  });
  return gathered;
}

ParameterSlot* slot_of(const Trainer& trainer, const std::string& name) {
  for (ParameterSlot* slot : trainer.rank_model().slots) {
    if (slot->layout.name == name) {
      return slot;
    }
  }
  return nullptr;
}

/// The weights after some steps, on world rank 0.
GatheredTensors weights_after(int num_steps,
                              const Overrides& overrides,
                              Break broken = Break::kNone) {
  const RunConfig config = checked_tiny_run(overrides);
  GatheredTensors weights;
  train_layout(config,
               [&](Trainer& trainer, DeviceMesh& mesh) {
                 for (int step = 0; step < num_steps; ++step) {
                   trainer.step();
                 }
                 GatheredTensors gathered =
                     gather_on_first(config, trainer, mesh, weight_of);
                 if (mesh.rank() == 0) {
                   weights = std::move(gathered);
                 }
               },
               {.broken = broken});
  return weights;
}

// Case 10: fewer KV heads than tp. Each replica sees only its query group.
TEST(Case10, GradientsOfSharedKvHeadsAreThoseOfOneRank) {
  const VerifyReport report =
      verify_layout(checked_tiny_run({"parallel.tp=4",
                                      "model.num_attention_heads=8",
                                      "model.num_key_value_heads=2"}));
  EXPECT_TRUE(report.is_equal()) << to_text(report);
}

struct HeadRun {
  double loss = 0;
  GatheredTensors gradients;
};

/// One step with an output weight of zeros, V = 11.
HeadRun run_with_zero_head(const std::string& plan) {
  const RunConfig config =
      checked_tiny_run(plan_overrides(plan) + Overrides{"model.vocab_size=11"});
  HeadRun run;
  train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
    ParameterSlot* head = slot_of(trainer, "head.weight");
    {
      const at::NoGradGuard no_grad;
      head->tensor.zero_();
    }
    trainer.on_gradients = [&] {
      GatheredTensors gathered =
          gather_on_first(config, trainer, mesh, gradient_of);
      if (mesh.rank() == 0) {
        run.gradients = std::move(gathered);
      }
      const VocabRange rows = vocab_range(11, mesh.dims().tp, mesh.coord().tp);
      const at::Tensor padding = head->tensor.grad().narrow(
          0, rows.num_valid, rows.num_stored - rows.num_valid);
      EXPECT_EQ(padding.abs().sum().item<double>(), 0.0);
    };
    const StepStats stats = trainer.step();
    EXPECT_DOUBLE_EQ(stats.loss, std::log(11.0));
  });
  return run;
}

// Case 14: a uniform distribution over the real tokens. Unmasked padding
// would give ln 12.
TEST(Case14, ZeroOutputWeightsGiveLnOfTheTrueVocabulary) {
  const HeadRun alone = run_with_zero_head("tp1");
  for (const char* plan : {"tp2", "tp4"}) {
    const HeadRun split = run_with_zero_head(plan);
    EXPECT_EQ(split.gradients.tensors.at("lm_head.weight").size(0), 11);
    for (const auto& [name, gradient] : alone.gradients.tensors) {
      EXPECT_LE(max_difference(split.gradients.tensors.at(name), gradient),
                1e-14)
          << plan << " " << name;
    }
  }
}

struct Tokens {
  int64_t count = 0;
  double nats = 0;  // −log p of each; 0: all labels are ignored
};

/// The summed loss over 100 of these tokens. Two ids, logits (0, d) · w.
at::Tensor loss_of(const Tokens& tokens, const at::Tensor& w) {
  const double d = std::log(std::expm1(tokens.nats > 0 ? tokens.nats : 1.0));
  at::Tensor row = at::full({2}, d, at::kDouble);
  row[0] = 0.0;
  const at::Tensor logits = (row * w).expand({1, tokens.count, 2}).contiguous();
  const at::Tensor labels = at::full(
      {1, tokens.count}, tokens.nats > 0 ? 0 : kIgnoredLabel, at::kLong);
  LossOptions options;
  options.vocab_size = options.num_valid = options.num_columns = 2;
  return cross_entropy(logits, labels, options).loss / 100.0;
}

struct LossAndGradient {
  double loss = 0;
  at::Tensor gradient;
};

/// One list of microbatches for each replica.
LossAndGradient run_unequal(const std::vector<std::vector<Tokens>>& replicas) {
  LossAndGradient result;
  std::mutex mutex;
  run_ranks(static_cast<int>(replicas.size()), [&](auto world) {
    const at::Tensor w = at::ones({2}, at::kDouble).requires_grad_();
    FlatBuffer buffer({w});
    ReplicaGroups groups(*world);
    BucketReducer reducer(buffer, groups);
    const std::vector<Tokens>& mine = replicas[world->rank()];
    double loss = 0;
    for (size_t i = 0; i < mine.size(); ++i) {
      if (i + 1 == mine.size()) {
        reducer.prepare();
      }
      const at::Tensor part = loss_of(mine[i], w);
      loss += part.template item<double>();
      torch::autograd::backward({part}, {});
    }
    reducer.finish();
    loss = sum_over(*world, loss);
    const std::lock_guard lock(mutex);
    result = {loss, buffer.gradient(0).clone()};
  });
  return result;
}

// Case 18: 90 tokens of 2.0 and 10 of 6.0 are 240 / 100 = 2.4, not 4.0.
TEST(Case18, TokensCountOnceHoweverTheyAreSplit) {
  const Tokens many = {90, 2.0};
  const Tokens few = {10, 6.0};
  const Tokens none = {7, 0.0};
  const LossAndGradient whole = run_unequal({{many, few}});
  EXPECT_NEAR(whole.loss, 2.4, 1e-14);
  const std::vector<std::vector<std::vector<Tokens>>> splits = {
      {{few, many}},
      {{many}, {few}},
      {{many, none, few}},
      {{many, few}, {none, none}},
      {{none}, {few}, {many}}};
  for (const auto& replicas : splits) {
    const LossAndGradient split = run_unequal(replicas);
    EXPECT_NEAR(split.loss, 2.4, 1e-14);
    EXPECT_LE(max_difference(split.gradient, whole.gradient), 1e-14);
  }
}

// Case 20: 3 accumulation steps of 4 microbatches through 4 stages, every
// gradient 1: the mean is 1, where rescaling a running sum gives 0.4375.
TEST(Case20, TwelveMicrobatchesOfOneHaveTheMeanOne) {
  constexpr int kNumMicrobatches = 12;
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const auto lists = make_schedule(schedule, 4, kNumMicrobatches);
    run_ranks(4, [&](auto world) {
      const at::Tensor weight = at::ones({1}, at::kDouble).requires_grad_();
      StageCalls calls;
      calls.forward = [&](int, const at::Tensor& input) {
        const at::Tensor x =
            input.defined() ? input : at::ones({1}, at::kDouble);
        const at::Tensor y = x * weight;
        return world->rank() == 3 ? y.sum() / kNumMicrobatches : y;
      };
      calls.make_activation = [](int) { return at::ones({1}, at::kDouble); };
      Recorder recorder(Board::create(1), 0);
      Executor(lists[world->rank()], *world, calls, recorder).run();
      EXPECT_NEAR(weight.grad().template item<double>(), 1.0, 1e-15);
    });
  }
}

// Case 23: a tied weight's gradients (1, 3) on the first stage's replicas and
// (5, 7) on the last one's are 8 on all four; the wrong order gives 7 and 9.
TEST(Case23, TiedGradientsAreMeansOfReplicasThenSumsOfStages) {
  run_ranks(4, [](std::unique_ptr<Group> world) {
    DeviceMesh mesh({.pp = 2, .dp = 2}, std::move(world));
    const double mine = 1.0 + 4.0 * mesh.coord().pp + 2.0 * mesh.coord().dp;
    const at::Tensor weight = at::ones({1}, at::kDouble).requires_grad_();
    FlatBuffer buffer({weight});
    ReplicaGroups groups(mesh.group(Axis::kDp));
    BucketReducer reducer(buffer, groups);
    reducer.prepare();
    torch::autograd::backward({(weight * (mine / 2)).sum()}, {});
    reducer.finish();
    all_reduce(*mesh.tied_stages(), buffer.gradient(0));
    EXPECT_EQ(buffer.gradient(0).item<double>(), 8.0);
  });
}

const std::vector<Overrides>& layouts_with_copies() {
  static const Overrides gpt2 = {"model.family=gpt2", "model.vocab_size=11"};
  static const std::vector<Overrides> layouts = {
      plan_overrides("dp2_pp2") + gpt2,
      plan_overrides("dp2_pp2") + Overrides{"model.tie_word_embeddings=true"},
      plan_overrides("dp2_tp2_pp2") + gpt2 + Overrides{"model.attn_pdrop=0.1"},
      plan_overrides("dp2_tp2") + Overrides{"model.num_key_value_heads=1"},
      plan_overrides("tp4") + Overrides{"model.num_key_value_heads=2"},
      plan_overrides("tp2_pp2") + Overrides{"training.precision=fp32",
                                            "model.num_key_value_heads=1",
                                            "model.tie_word_embeddings=true"},
      plan_overrides("dp3") + Overrides{"training.precision=bf16_autocast"},
      // Case 23, of the weights.
      plan_overrides("dp2_pp2_zero1") + gpt2,
      plan_overrides("dp2_pp2_zero2") + gpt2,
      plan_overrides("dp2_tp2_pp2_zero2") +
          Overrides{"training.precision=fp32",
                    "model.num_key_value_heads=1",
                    "model.tie_word_embeddings=true"},
      plan_overrides("dp4_zero2_group2") +
          Overrides{"training.precision=fp32", "training.microbatch_size=1"}};
  return layouts;
}

TEST(Copies, AreBitEqualAfterTwentySteps) {
  for (const Overrides& layout : layouts_with_copies()) {
    const GatheredTensors weights = weights_after(20, layout);
    EXPECT_THAT(weights.drifted, testing::IsEmpty())
        << testing::PrintToString(layout);
    EXPECT_FALSE(weights.tensors.empty());
  }
}

TEST(Copies, ThatDriftAreNamedWithTheirRanks) {
  const GatheredTensors weights =
      weights_after(2, layouts_with_copies()[4], Break::kSkipKvSum);
  ASSERT_FALSE(weights.drifted.empty());
  EXPECT_THAT(to_text(weights.drifted.front()),
              testing::HasSubstr("k_proj.weight differs between ranks 0 and "
                                 "1 by "));
  std::set<std::string> names;
  for (const Drift& drift : weights.drifted) {
    EXPECT_TRUE(names.insert(drift.name).second) << drift.name;
  }
}

std::optional<double> noise_scale_after(int num_steps,
                                        const Overrides& overrides) {
  std::optional<double> noise;
  train_layout(checked_tiny_run(overrides),
               [&](Trainer& trainer, DeviceMesh& mesh) {
                 for (int step = 0; step < num_steps; ++step) {
                   trainer.step();
                 }
                 if (mesh.rank() == 0) {
                   noise = trainer.gradient_noise_scale();
                 }
               });
  return noise;
}

TEST(NoiseScale, DoesNotDependOnHowAReplicaIsSplit) {
  const double whole = noise_scale_after(5, plan_overrides("dp2")).value();
  for (const char* plan : {"dp2_tp2", "dp2_pp2", "dp2_tp2_pp2"}) {
    const auto split = noise_scale_after(5, plan_overrides(plan));
    EXPECT_NEAR(split.value_or(0), whole, 1e-6 * whole) << plan;
  }
}

TEST(NoiseScale, IsNotToldWhereRanksHoldPartsOfOneGradient) {
  const Overrides tied = {"model.tie_word_embeddings=true"};
  const Overrides shared = {"model.num_key_value_heads=1"};
  EXPECT_TRUE(noise_scale_after(5, plan_overrides("dp2") + tied + shared));
  EXPECT_FALSE(noise_scale_after(5, plan_overrides("dp2_pp2") + tied));
  EXPECT_FALSE(noise_scale_after(5, plan_overrides("dp2_tp2") + shared));
}

// Case 30: replicas that start from different seeds are found before a step.
TEST(Case30, UnequalReplicasAreSeenBeforeTheFirstStep) {
  const RunConfig config = checked_tiny_run({"parallel.dp=2"});
  GatheredTensors weights;
  run_ranks(2, [&](std::unique_ptr<Group> world) {
    DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
    RunConfig mine = config;
    mine.training.seed += mesh.coord().dp;
    const RankModel rank_model = build_rank_model(mine, mesh);
    GatheredTensors gathered =
        gather_logical(config, mesh, rank_model.slots, weight_of);
    if (mesh.rank() == 0) {
      weights = std::move(gathered);
    }
  });
  EXPECT_THAT(weights.drifted, testing::Not(testing::IsEmpty()));
}

std::string layer_of(const std::string& name) {
  const size_t begin = name.find("layers.");
  return begin == std::string::npos ? "" : name.substr(begin + 7, 1);
}

// Case 30: one seed for four stages, and no two layers are alike.
TEST(Case30, InitialWeightsAreThoseOfOneRankAndDifferByLayer) {
  const GatheredTensors alone = weights_after(0, {});
  for (const char* plan : {"pp4", "tp4", "dp2_tp2_pp2"}) {
    const GatheredTensors split = weights_after(0, plan_overrides(plan));
    for (const auto& [name, weight] : alone.tensors) {
      EXPECT_TRUE(at::equal(split.tensors.at(name), weight)) << name;
    }
  }
  const auto& first = alone.tensors.at("model.layers.0.mlp.up_proj.weight");
  int num_compared = 0;
  for (const auto& [name, weight] : alone.tensors) {
    if (name.ends_with("mlp.up_proj.weight") && layer_of(name) != "0") {
      EXPECT_GT(max_difference(weight, first), 0.01) << name;
      ++num_compared;
    }
  }
  EXPECT_EQ(num_compared, 3);
}

/// Elements that this rank is the one to count.
int64_t owned_elements(const RunConfig& config,
                       const RankModel& rank_model,
                       const DeviceMesh& mesh) {
  int64_t numel = 0;
  for (const ParameterSlot* slot : rank_model.slots) {
    const bool is_copy = config.model.tie_word_embeddings &&
                         !rank_model.part.has_embedding &&
                         slot->layout.name == "head.weight";
    for (const Piece& piece : slot->layout.pieces) {
      const bool counts = mesh.coord().dp == 0 && piece.replica == 0;
      numel += counts && !is_copy ? piece.numel() : 0;
    }
  }
  return numel;
}

void expect_planned_shapes(const RunConfig& config,
                           const RankModel& rank_model,
                           const DeviceMesh& mesh) {
  const std::vector<ParameterLayout> planned = parameter_layouts(
      config.model, rank_model.part, mesh.dims().tp, mesh.coord().tp);
  ASSERT_EQ(planned.size(), rank_model.slots.size());
  int64_t numel = 0;
  for (const ParameterLayout& layout : planned) {
    const auto found = std::find_if(
        rank_model.slots.begin(), rank_model.slots.end(), [&](auto* slot) {
          return slot->layout.name == layout.name;
        });
    ASSERT_NE(found, rank_model.slots.end()) << layout.name;
    EXPECT_EQ((*found)->tensor.sizes().vec(), layout.shape) << layout.name;
    numel += (*found)->tensor.numel();
  }
  EXPECT_EQ(numel, count_stored(planned).num_stored);
  int64_t registered = 0;
  for (const at::Tensor& parameter : rank_model.model->parameters()) {
    registered += parameter.numel();
  }
  EXPECT_EQ(registered, numel);
}

class BuiltModel : public testing::TestWithParam<const char*> {};

TEST_P(BuiltModel, HasThePlansShapesAndCount) {
  for (const Overrides& model : std::vector<Overrides>{
           {},
           {"model.family=gpt2"},
           {"model.family=gpt2", "model.tie_word_embeddings=false"},
           {"model.tie_word_embeddings=true", "model.vocab_size=11"},
           {"model.num_key_value_heads=1", "model.intermediate_size=23"},
           {"model.family=gpt2",
            "model.vocab_size=13",
            "model.intermediate_size=29",
            "model.num_hidden_layers=5"}}) {
    const RunConfig config =
        checked_tiny_run(plan_overrides(GetParam()) + model);
    std::atomic<int64_t> owned = 0;
    run_ranks(config.world_size(), [&](std::unique_ptr<Group> world) {
      DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
      const RankModel rank_model = build_rank_model(config, mesh);
      expect_planned_shapes(config, rank_model, mesh);
      owned += owned_elements(config, rank_model, mesh);
    });
    EXPECT_EQ(owned, num_parameters(config.model))
        << testing::PrintToString(model);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans,
                         BuiltModel,
                         testing::Values("tp1",
                                         "tp2",
                                         "pp2",
                                         "dp2",
                                         "dp2_tp2",
                                         "tp2_pp2",
                                         "dp2_pp2",
                                         "dp2_tp2_pp2",
                                         "pp4",
                                         "tp4",
                                         "dp3"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace triax
