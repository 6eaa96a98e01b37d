// SPDX-License-Identifier: Apache-2.0
// Every layout equals one rank, case by case.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <set>
#include <tuple>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_corpus.h"
#include "triax/base/file.h"

namespace triax {
namespace {

struct Case {
  std::string name;
  Overrides overrides;
};

void PrintTo(const Case& parity_case, std::ostream* out) {
  *out << parity_case.name;
}

const Overrides kGpt2 = {"model.family=gpt2"};
const Overrides kDropout = {
    "model.resid_pdrop=0.1", "model.embd_pdrop=0.2", "model.attn_pdrop=0.15"};
const Overrides kDocuments = {"data.mask_document_ends=true"};

std::vector<Case> model_cases() {
  return {
      {"llama", {}},
      {"gpt2", kGpt2},
      {"gpt2_untied", kGpt2 + Overrides{"model.tie_word_embeddings=false"}},
      {"llama_tied", {"model.tie_word_embeddings=true"}},
      {"kv1", {"model.num_key_value_heads=1"}},
      {"kv2", {"model.num_key_value_heads=2"}},
      {"wide_heads", {"model.head_dim=6"}},
      {"llama3_rope",
       {"model.rope_scaling.type=llama3",
        "model.rope_scaling.original_max_position_embeddings=16",
        "data.sequence_length=16"}},
      {"uneven_layers", {"model.num_hidden_layers=5"}},
      {"heavy_ends",
       {"model.num_hidden_layers=5",
        "model.hidden_size=8",
        "model.vocab_size=150",
        "parallel.weigh_embedding_and_head=true"}},
      {"odd_vocab", {"model.vocab_size=11"}},
      {"odd_vocab_tied_gpt2", kGpt2 + Overrides{"model.vocab_size=11"}},
      {"odd_ffn", {"model.intermediate_size=23"}},
      {"odd_ffn_gpt2", kGpt2 + Overrides{"model.intermediate_size=29"}},
      {"dropout", kDropout},
      {"dropout_gpt2", kGpt2 + kDropout},
  };
}

std::vector<Case> training_cases() {
  return {
      {"accumulation", {"training.microbatch_size=1"}},
      {"gpipe", {"parallel.schedule=gpipe", "training.microbatch_size=1"}},
      {"documents", kDocuments},
      {"smoothing_z_loss",
       {"training.label_smoothing=0.1", "training.z_loss=0.01"}},
      {"frozen_layer",
       {"optimizer.freeze=[\"model.layers.0.*\", \"*norm.weight\"]"}},
      {"frozen_embedding",
       {"optimizer.freeze=[\"model.embed_tokens.weight\"]"}},
      {"frozen_tied", kGpt2 + Overrides{"optimizer.freeze=[\"*wte.weight\"]"}},
      {"frozen_first_half",
       {"optimizer.freeze=[\"model.embed_tokens.weight\", \"model.layers.0.*\","
        " \"model.layers.1.*\"]"}},
      {"frozen_all_but_head",
       {"optimizer.freeze=[\"model.*\"]", "training.label_smoothing=0.1"}},
      {"groups",
       {"optimizer.group=[{pattern = \"model.layers.*\", lr = 5e-3,"
        " weight_decay = 0.0}]"}},
      {"small_buckets", {"parallel.bucket_bytes=1"}},
      {"middle_buckets", {"parallel.bucket_bytes=3000"}},
      {"clipping", {"training.gradient_clipping=0.05"}},
      {"no_clipping", {"training.gradient_clipping=0"}},
      {"sgd", {"optimizer.name=sgd", "optimizer.lr=0.1"}},
      {"sgd_momentum",
       {"optimizer.name=sgd", "optimizer.lr=0.1", "optimizer.momentum=0.9"}},
      {"wsd", {"optimizer.schedule=wsd", "optimizer.decay_steps=20"}},
      {"recompute_full", {"memory.recompute=full"}},
      {"recompute_pairs",
       kGpt2 + kDropout +
           Overrides{"memory.recompute=every_k",
                     "memory.recompute_layers=3",
                     "training.microbatch_size=1"}},
      {"recompute_selective", {"memory.recompute=selective"}},
      {"recompute_selective_gpt2",
       kGpt2 + kDropout + kDocuments + Overrides{"memory.recompute=selective"}},
      {"recompute_frozen_first_half",
       {"memory.recompute=full",
        "optimizer.freeze=[\"model.embed_tokens.weight\", \"model.layers.0.*\","
        " \"model.layers.1.*\"]"}},
      {"order_dp_pp_tp", {"parallel.order=dp-pp-tp"}},
      {"order_pp_dp_tp", {"parallel.order=pp-dp-tp"}},
      {"everything",
       kGpt2 + kDropout + kDocuments +
           Overrides{"model.vocab_size=13",
                     "model.intermediate_size=29",
                     "model.num_hidden_layers=5",
                     "training.microbatch_size=1",
                     "training.label_smoothing=0.1",
                     "training.z_loss=0.01",
                     "training.gradient_clipping=0.05",
                     "parallel.bucket_bytes=3000",
                     "parallel.order=pp-tp-dp"}},
  };
}

const Overrides kSplitSequence = {"parallel.sequence_parallel=true",
                                  "data.sequence_length=12"};

std::vector<Case> sequence_cases() {
  return {
      {"llama", {}},
      {"gpt2_dropout", kGpt2 + kDropout},
      {"kv1_tied",
       {"model.num_key_value_heads=1", "model.tie_word_embeddings=true"}},
      {"odd_vocab_documents", kDocuments + Overrides{"model.vocab_size=11"}},
      {"accumulation", {"training.microbatch_size=1"}},
      {"recompute_full", kDropout + Overrides{"memory.recompute=full"}},
      {"recompute_selective",
       kGpt2 + kDropout + Overrides{"memory.recompute=selective"}},
      {"frozen_norms", {"optimizer.freeze=[\"*norm.weight\"]"}},
      {"fp32", {"training.precision=fp32"}},
      {"bf16",
       {"training.precision=bf16_autocast", "memory.recompute=selective"}},
  };
}

using Parameter = std::tuple<const char*, Case>;

class Parity : public testing::TestWithParam<Parameter> {};

std::string test_name(const testing::TestParamInfo<Parameter>& info) {
  return std::string(std::get<0>(info.param)) + "_" +
         std::get<1>(info.param).name;
}

void expect_equal(const Overrides& overrides) {
  const VerifyReport report = verify_layout(checked_tiny_run(overrides));
  EXPECT_TRUE(report.is_equal())
      << to_text(report)
      << "\nrepeat: " << verify_command(overrides, kTwoSteps);
}

void expect_equal(const Parameter& parameter, const Overrides& more = {}) {
  const auto& [plan, parity_case] = parameter;
  expect_equal(plan_overrides(plan) + parity_case.overrides + more);
}

TEST_P(Parity, EqualsOneRank) {
  expect_equal(GetParam());
}

const auto kAllPlans = testing::Values("tp2",
                                       "pp2",
                                       "dp2",
                                       "dp2_tp2",
                                       "tp2_pp2",
                                       "dp2_pp2",
                                       "dp2_tp2_pp2",
                                       "pp4",
                                       "tp4",
                                       "dp3");
const auto kMainPlans = testing::Values("tp2",
                                        "pp2",
                                        "dp2",
                                        "dp2_tp2_pp2",
                                        "dp2_tp2_zero1",
                                        "dp2_pp2_zero2",
                                        "dp2_tp2_zero3");

INSTANTIATE_TEST_SUITE_P(Models,
                         Parity,
                         testing::Combine(kAllPlans,
                                          testing::ValuesIn(model_cases())),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Training,
                         Parity,
                         testing::Combine(kAllPlans,
                                          testing::ValuesIn(training_cases())),
                         test_name);

class ParitySequence : public Parity {};

TEST_P(ParitySequence, EqualsOneRank) {
  expect_equal(GetParam(), kSplitSequence);
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         ParitySequence,
                         testing::Combine(testing::Values("tp2",
                                                          "tp4",
                                                          "tp2_pp2",
                                                          "dp2_tp2",
                                                          "dp2_tp2_pp2",
                                                          "dp2_tp2_zero1",
                                                          "dp2_tp2_pp2_zero2",
                                                          "dp2_tp2_zero3"),
                                          testing::ValuesIn(sequence_cases())),
                         test_name);

/// Layouts with ZeRO; four replicas need smaller microbatches.
class ParityZero : public Parity {};

TEST_P(ParityZero, EqualsOneRank) {
  const bool is_dp4 = std::string(std::get<0>(GetParam())).starts_with("dp4");
  expect_equal(GetParam(),
               is_dp4 ? Overrides{"training.microbatch_size=1"} : Overrides{});
}

const auto kZeroPlans = testing::Values("dp2_zero1",
                                        "dp3_zero1",
                                        "dp4_zero1",
                                        "dp2_tp2_zero1",
                                        "dp2_pp2_zero1",
                                        "dp2_tp2_pp2_zero1",
                                        "dp2_zero2",
                                        "dp3_zero2",
                                        "dp4_zero2",
                                        "dp2_tp2_zero2",
                                        "dp2_pp2_zero2",
                                        "dp2_tp2_pp2_zero2",
                                        "dp4_zero1_group2",
                                        "dp4_zero2_group2",
                                        "dp2_zero3",
                                        "dp3_zero3",
                                        "dp2_tp2_pp2_zero3",
                                        "dp4_zero3_group2");

/// Those of the cases above in which ZeRO could go wrong.
std::vector<Case> zero_cases() {
  const std::set<std::string> names = {"llama",
                                       "gpt2",
                                       "llama_tied",
                                       "kv1",
                                       "odd_vocab_tied_gpt2",
                                       "accumulation",
                                       "frozen_layer",
                                       "frozen_tied",
                                       "frozen_first_half",
                                       "frozen_all_but_head",
                                       "groups",
                                       "small_buckets",
                                       "middle_buckets",
                                       "clipping",
                                       "sgd_momentum",
                                       "recompute_full",
                                       "recompute_pairs",
                                       "recompute_frozen_first_half",
                                       "everything"};
  std::vector<Case> cases;
  for (const auto& all : {model_cases(), training_cases()}) {
    std::copy_if(
        all.begin(), all.end(), std::back_inserter(cases), [&](const Case& c) {
          return names.contains(c.name);
        });
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Zero,
                         ParityZero,
                         testing::Combine(kZeroPlans,
                                          testing::ValuesIn(zero_cases())),
                         test_name);

// However parameters are gathered.
TEST(ParityUnits, EqualOneRank) {
  for (const char* way : {"parallel.prefetch=0",
                          "parallel.prefetch=5",
                          "parallel.reshard_after_forward=false"}) {
    for (const char* recompute : {"none", "selective", "full", "every_k"}) {
      expect_equal(plan_overrides("dp2_pp2_zero3") +
                   Overrides{way,
                             std::string("memory.recompute=") + recompute,
                             "model.resid_pdrop=0.1",
                             "training.microbatch_size=1"});
    }
  }
}

class ParityFp32 : public Parity {};

TEST_P(ParityFp32, EqualsOneRank) {
  expect_equal(GetParam(), {"training.precision=fp32"});
}

const auto kSpinePlans = testing::Values(
    "tp2", "pp2", "dp2", "dp2_tp2", "tp2_pp2", "dp2_pp2", "dp2_tp2_pp2");

INSTANTIATE_TEST_SUITE_P(
    Models,
    ParityFp32,
    testing::Combine(
        kSpinePlans,
        testing::Values(Case{"llama", {}},
                        Case{"gpt2", kGpt2},
                        Case{"kv1", {"model.num_key_value_heads=1"}},
                        Case{"llama_tied", {"model.tie_word_embeddings=true"}},
                        Case{"uneven_layers", {"model.num_hidden_layers=5"}},
                        Case{"odd_vocab", {"model.vocab_size=11"}},
                        Case{"accumulation", {"training.microbatch_size=1"}},
                        Case{"dropout", kDropout},
                        Case{"dropout_gpt2", kGpt2 + kDropout},
                        Case{"documents", kDocuments})),
    test_name);

INSTANTIATE_TEST_SUITE_P(
    Zero,
    ParityFp32,
    testing::Combine(testing::Values("dp2_tp2_zero1", "dp2_pp2_zero2"),
                     testing::Values(Case{"llama", {}},
                                     Case{"gpt2", kGpt2},
                                     Case{"kv1",
                                          {"model.num_key_value_heads=1"}},
                                     Case{"odd_vocab", {"model.vocab_size=11"}},
                                     Case{"dropout_gpt2", kGpt2 + kDropout},
                                     Case{"documents", kDocuments})),
    test_name);

class ParityBf16 : public Parity {};

TEST_P(ParityBf16, EqualsOneRank) {
  expect_equal(GetParam(), {"training.precision=bf16_autocast"});
}

INSTANTIATE_TEST_SUITE_P(Models,
                         ParityBf16,
                         testing::Combine(kMainPlans,
                                          testing::Values(Case{"llama", {}},
                                                          Case{"gpt2", kGpt2})),
                         test_name);

TEST(ParityStages, AListThatIsUnevenEqualsOneRank) {
  for (const char* stages : {"[1,3]", "[3,1]"}) {
    expect_equal({"parallel.pp=2", std::string("parallel.stages=") + stages});
  }
  expect_equal({"parallel.pp=3", "parallel.tp=2", "parallel.stages=[1,1,2]"});
}

TEST(ParityVocabulary, ARankMayHoldNoRowOfIt) {
  // Parts of ceil(17 / 8) = 3 rows: ranks 6 and 7 hold padding alone.
  for (const char* family : {"llama", "gpt2"}) {
    expect_equal({std::string("model.family=") + family,
                  "parallel.tp=8",
                  "model.vocab_size=17",
                  "model.num_attention_heads=8",
                  "model.num_hidden_layers=2"});
  }
}

TEST(ParityData, BytesOfTextAreTokensToo) {
  const ScratchFolder folder;
  write_bytes(folder.file("text"), tiny_text());
  expect_equal({"parallel.dp=2",
                "parallel.tp=2",
                "model.vocab_size=257",
                "data.path=" + folder.file("text")});
}

TEST(ParityData, ValidationDoesNotDependOnTheLayout) {
  const Overrides data = {"data.validation=0.1",
                          "data.mask_document_ends=true",
                          "training.validate_every=1",
                          "model.vocab_size=13",
                          "training.microbatch_size=1"};
  std::vector<double> losses;
  for (const char* plan : {"tp1", "tp2", "pp2", "dp3", "dp2_tp2_pp2"}) {
    train_layout(checked_tiny_run(plan_overrides(plan) + data),
                 [&](Trainer& trainer, DeviceMesh& mesh) {
                   trainer.step();
                   const double loss = trainer.validate();
                   if (mesh.rank() == 0) {
                     losses.push_back(loss);
                   }
                 });
    EXPECT_NEAR(losses.back(), losses.front(), 1e-12 * losses.front()) << plan;
  }
  EXPECT_GT(losses.front(), 1.0);
}

}  // namespace
}  // namespace triax
