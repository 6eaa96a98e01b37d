// SPDX-License-Identifier: Apache-2.0
// The model in bf16 or fp16 with fp32 masters: every layout against one rank,
// bits and bytes.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <tuple>

#include "tests/support/layout_run.h"
#include "tests/support/some_steps.h"
#include "triax/plan/sharding.h"
#include "triax/plan/zero_stages.h"
#include "triax/train/gather.h"

namespace triax {
namespace {

const Overrides kGpt2 = {"model.family=gpt2"};
const Overrides kDropout = {
    "model.resid_pdrop=0.1", "model.embd_pdrop=0.2", "model.attn_pdrop=0.15"};

Overrides precision(const std::string& name) {
  // Few tokens: a loss of 65536 times one would overflow.
  return name == "fp16" ? Overrides{"training.precision=fp16",
                                    "training.initial_loss_scale=256"}
                        : Overrides{"training.precision=" + name};
}

struct Case {
  std::string name;
  Overrides overrides;
};

void PrintTo(const Case& parity_case, std::ostream* out) {
  *out << parity_case.name;
}

using Parameter = std::tuple<const char*, const char*, Case>;

std::string test_name(const testing::TestParamInfo<Parameter>& info) {
  const auto& [type, plan, parity_case] = info.param;
  return std::string(type) + "_" + plan + "_" + parity_case.name;
}

class ParityPrecision : public testing::TestWithParam<Parameter> {};

TEST_P(ParityPrecision, EqualsOneRank) {
  const auto& [type, plan, parity_case] = GetParam();
  const Overrides overrides =
      plan_overrides(plan) + precision(type) + parity_case.overrides;
  const VerifyReport report = verify_layout(checked_tiny_run(overrides));
  EXPECT_TRUE(report.is_equal())
      << to_text(report)
      << "\nrepeat: " << verify_command(overrides, kTwoSteps);
}

std::vector<Case> cases() {
  return {{"llama", {}},
          {"gpt2_dropout", kGpt2 + kDropout},
          {"kv1_tied",
           {"model.num_key_value_heads=1", "model.tie_word_embeddings=true"}},
          {"odd_vocab_documents",
           {"model.vocab_size=11", "data.mask_document_ends=true"}},
          {"small_buckets_accumulation",
           {"parallel.bucket_bytes=1", "training.microbatch_size=1"}},
          {"clipping_groups_frozen",
           {"training.gradient_clipping=0.05",
            "optimizer.freeze=[\"*o_proj*\"]",
            "optimizer.group=[{pattern=\"*mlp*\", lr=5e-3}]"}},
          {"sgd", {"optimizer.name=sgd", "optimizer.lr=0.1"}},
          {"recompute_full", {"memory.recompute=full"}},
          {"recompute_selective",
           kGpt2 + kDropout + Overrides{"memory.recompute=selective"}},
          {"sent_in_bf16", {"parallel.reduce_dtype=bf16"}}};
}

INSTANTIATE_TEST_SUITE_P(Bf16,
                         ParityPrecision,
                         testing::Combine(testing::Values("bf16"),
                                          testing::Values("tp2",
                                                          "pp2",
                                                          "dp2",
                                                          "dp2_tp2_pp2",
                                                          "dp2_tp2_zero1",
                                                          "dp2_pp2_zero2",
                                                          "dp3_zero2"),
                                          testing::ValuesIn(cases())),
                         test_name);

INSTANTIATE_TEST_SUITE_P(
    Fp16,
    ParityPrecision,
    testing::Combine(testing::Values("fp16"),
                     testing::Values("tp2", "dp2_pp2_zero2"),
                     testing::Values(Case{"llama", {}},
                                     Case{"gpt2_dropout", kGpt2 + kDropout},
                                     Case{"sent_in_fp16",
                                          {"parallel.reduce_dtype=fp16"}})),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Sequence,
    ParityPrecision,
    testing::Combine(testing::Values("bf16"),
                     testing::Values("tp2", "dp2_tp2_pp2_zero2"),
                     testing::Values(Case{
                         "split",
                         kDropout + Overrides{"parallel.sequence_parallel=true",
                                              "data.sequence_length=12"}})),
    test_name);

// In other precisions what travels may be narrower too.
INSTANTIATE_TEST_SUITE_P(
    Sent,
    ParityPrecision,
    testing::Combine(testing::Values("fp64", "fp32", "bf16_autocast"),
                     testing::Values("dp2", "dp3_zero1", "dp2_tp2_zero2"),
                     testing::Values(Case{"in_bf16",
                                          {"parallel.reduce_dtype=bf16"}})),
    test_name);

// One microbatch: replicas are all there is to sum. What travels may be
// narrower.
TEST(PrecisionBits, AreTheSameInEveryZeroStage) {
  for (const char* type : {"bf16", "fp16"}) {
    for (const char* sent : {"gradients", "bf16"}) {
      const Overrides base =
          precision(type) +
          Overrides{"parallel.dp=2",
                    "training.microbatch_size=6",
                    "training.gradient_clipping=0.05",
                    std::string("parallel.reduce_dtype=") + sent};
      const SomeSteps plain = run_of(base);
      for (const char* zero :
           {"parallel.zero=1", "parallel.zero=2", "parallel.zero=3"}) {
        for (const char* bucket : {"1", "3000", "25MiB"}) {
          expect_same_bits(
              run_of(base +
                     Overrides{zero,
                               std::string("parallel.bucket_bytes=") + bucket}),
              plain,
              fmt::format("{} {} {}", type, zero, bucket));
        }
      }
    }
  }
}

TEST(PrecisionBits, OfParametersAreTheRoundedMasters) {
  const SomeSteps run = run_of(precision("bf16") + plan_overrides("dp2_zero1"));
  int64_t num_rounded = 0;
  for (const auto& [name, master] : run.masters) {
    const at::Tensor rounded = master.to(at::kBFloat16).to(at::kFloat);
    EXPECT_TRUE(at::equal(rounded, run.weights.at(name))) << name;
    num_rounded += master.ne(rounded).sum().item<int64_t>();
  }
  EXPECT_GT(num_rounded, 1000);  // the masters hold more
}

TEST(PrecisionBits, DoNotDependOnRecompute) {
  for (const char* family : {"llama", "gpt2"}) {
    const Overrides base = precision("bf16") + plan_overrides("dp2_pp2_zero1") +
                           kDropout +
                           Overrides{std::string("model.family=") + family,
                                     "training.microbatch_size=1"};
    const SomeSteps none = run_of(base);
    for (const char* recompute : {"selective", "full"}) {
      expect_same_bits(
          run_of(base +
                 Overrides{std::string("memory.recompute=") + recompute}),
          none,
          recompute);
    }
  }
}

// Sums of what travels in bf16 are those of rounded parts, rounded.
TEST(ReduceDtype, RoundsWhatReplicasSendAndTheirSum) {
  const Overrides base = {"parallel.dp=2", "training.precision=fp32"};
  std::vector<TensorMap> gradients;
  for (const char* sent : {"gradients", "bf16"}) {
    const RunConfig config = checked_tiny_run(
        base + Overrides{std::string("parallel.reduce_dtype=") + sent});
    train_layout(config, [&](Trainer& trainer, DeviceMesh& mesh) {
      trainer.on_gradients = [&] {
        GatheredTensors gathered = gather_logical(
            config, mesh, trainer.rank_model().slots, gradient_of);
        if (mesh.rank() == 0) {
          gradients.push_back(std::move(gathered.tensors));
        }
      };
      trainer.step();
    });
  }
  for (const auto& [name, sent] : gradients[1]) {
    const at::Tensor& whole = gradients[0].at(name);
    EXPECT_TRUE(at::equal(sent, sent.to(at::kBFloat16).to(at::kFloat))) << name;
    EXPECT_FALSE(at::equal(sent, whole)) << name;
    EXPECT_LT((sent - whole).norm().item<double>(),
              2e-2 * whole.norm().item<double>())
        << name;
  }
}

TEST(PrecisionBytes, OfCopiesThatAreSentAreCounted) {
  for (const int zero : {0, 1, 2}) {
    const RunConfig config = checked_tiny_run(
        precision("bf16") + Overrides{"parallel.dp=2",
                                      fmt::format("parallel.zero={}", zero),
                                      "parallel.reduce_dtype=bf16",
                                      "parallel.bucket_bytes=3000",
                                      "training.microbatch_size=1"});
    train_layout(config, [&](Trainer& trainer, DeviceMesh&) {
      trainer.step();
      const StateBytesOfRank bytes = state_bytes_of_rank(
          config,
          parameter_layouts(config.model, trainer.rank_model().part, 1, 0));
      EXPECT_GT(trainer.trained().bucket_bytes(), 0) << zero;
      EXPECT_LE(trainer.trained().bucket_bytes(), bytes.buckets) << zero;
    });
  }
}

}  // namespace
}  // namespace triax
