// SPDX-License-Identifier: Apache-2.0
// The rules over RunFacts, whatever system they come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/check/foreign_check.h"
#include "triax/check/foreign_rules.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/model_shapes.h"
#include "triax/plan/model_stats.h"

namespace triax {
namespace {

using testing::HasSubstr;

Whole said(int64_t value, const char* key) {
  return {value, key, {"a", 1, 1}, false};
}

std::string all_of(const ForeignFindings& findings) {
  std::string all;
  for (const Problem& problem : findings.problems) {
    all += to_text(problem) + "\n";
  }
  for (const std::string& clause : findings.unjudged) {
    all += "not judged: " + clause + "\n";
  }
  return all;
}

class Facts : public testing::Test {
 protected:
  Facts() {
    config.system = System::kMegatron;
    config.file = "a";
    facts.tp = said(2, "tp");
    facts.heads = said(12, "heads");
  }
  std::string shapes() {
    ForeignFindings findings(config, facts, context);
    check_foreign_shapes(findings);
    return all_of(findings);
  }
  std::string choices() {
    ForeignFindings findings(config, facts, context);
    check_foreign_choices(findings);
    check_foreign_memory(findings);
    return all_of(findings);
  }

  ForeignConfig config;
  RunFacts facts;
  ForeignContext context;
};

TEST_F(Facts, WithoutAFaultSayNothing) {
  EXPECT_EQ(shapes(), "");
  facts.layers = said(24, "layers");
  facts.pp = said(4, "pp");
  facts.kv_heads = said(2, "kv");
  context.world = 16;
  EXPECT_EQ(shapes(), "");
}

// Cases 8, 9 and 10 of the public reports.
TEST_F(Facts, AWorldThatDoesNotFactorIsSaid) {
  facts.tp = said(3, "tp");
  context.world = 8;
  EXPECT_THAT(shapes(),
              HasSubstr("error[world-size]: tp: 8 ranks do not split "
                        "over tp 3 * pp 1 * cp 1 = 3: 2 would have "
                        "no place [refused]; use degrees whose "
                        "product is 1, 2, 4 or 8"));
  context.world = 2;
  EXPECT_THAT(shapes(), HasSubstr("2 ranks cannot hold"));
  // At the degree that is there.
  facts.tp = {};
  facts.cp = said(3, "cp");
  context.world = 8;
  EXPECT_THAT(shapes(), HasSubstr("error[world-size]: cp: 8 ranks"));
  facts.cp = {};
  facts.tp = said(2, "tp");
  facts.dp = said(2, "dp");
  context.world = 8;
  EXPECT_THAT(shapes(),
              HasSubstr("dp: dp 2 * (tp 2 * pp 1 * cp 1 = 2) does not make "
                        "8 ranks [refused]; use dp 4"));
  facts.dp = said(INT64_MAX, "dp");
  EXPECT_THAT(shapes(), HasSubstr("use dp 4"));
}

TEST_F(Facts, HeadsThatDoNotSplitAreSaid) {
  facts.tp = said(8, "tp");
  EXPECT_THAT(shapes(),
              HasSubstr("12 attention heads do not split over tp 8 [refused]; "
                        "use tp = 1, 2, 3, 4, 6 or 12"));
  config.system = System::kTorchTitan;
  EXPECT_THAT(shapes(), HasSubstr("[fails later]"));
  facts.heads = said(64, "heads");
  facts.kv_heads = said(3, "kv");
  EXPECT_THAT(shapes(), HasSubstr("error[kv-heads-divide]"));
  facts.kv_heads = said(2, "kv");
  EXPECT_THAT(shapes(), HasSubstr("no rank holds a copy of another's"));
  config.system = System::kMegatron;
  EXPECT_EQ(shapes(), "");
}

TEST_F(Facts, StagesAreCounted) {
  facts.pp = said(4, "pp");
  facts.layers = said(3, "layers");
  EXPECT_THAT(shapes(), HasSubstr("error[layers-fewer-than-stages]"));
  facts.layers = said(30, "layers");
  EXPECT_THAT(shapes(),
              HasSubstr("30 layers over 4 stages: stages 1 to 2 have 8 layers "
                        "and the others 7"));
  facts.first_stage_layers = said(6, "first");
  EXPECT_EQ(shapes(), "");
}

TEST_F(Facts, SequencesAreMeasured) {
  facts.sequence = said(4096, "length");
  facts.max_positions = said(2048, "positions");
  EXPECT_THAT(shapes(), HasSubstr("4096 tokens, and the model has 2048"));
  facts.max_positions = said(4096, "positions");
  facts.cp = said(3, "cp");
  facts.tp = said(1, "tp");
  EXPECT_THAT(shapes(), HasSubstr("do not split into 6 parts (cp 3)"));
}

TEST_F(Facts, TheModelIsAskedWhereTheConfigIsSilent) {
  facts.heads = {};
  EXPECT_THAT(shapes(), HasSubstr("not judged: whether heads and layers"));
  context.model = load_model_shape("gpt2-xl");
  EXPECT_THAT(shapes(), HasSubstr("25 attention heads do not split over tp 2"));
  facts.heads = said(24, "heads");
  EXPECT_THAT(shapes(), HasSubstr("warning[pair-conflict]"));
}

TEST_F(Facts, HostsBoundTheTensorAxis) {
  EXPECT_THAT(choices(), HasSubstr("not judged: whether tp crosses hosts"));
  context.ranks_on_host = 8;
  EXPECT_EQ(choices(), "");
  facts.tp = said(16, "tp");
  EXPECT_THAT(choices(), HasSubstr("warning[tp-crosses-hosts]"));
}

// Case 12: (p - 1) / (m + p - 1) = 3/5.
TEST_F(Facts, ABubbleIsCounted) {
  facts.tp = said(1, "tp");
  facts.pp = said(4, "pp");
  facts.accumulation = said(2, "accumulation");
  EXPECT_THAT(choices(),
              HasSubstr("2 microbatches over 4 stages: (p - 1) / "
                        "(m v + p - 1) = 60 % of the step is "
                        "bubble"));
  facts.accumulation = said(10, "accumulation");
  EXPECT_EQ(choices(), "");
}

TEST_F(Facts, ZeroThreeIsComparedWithZeroOne) {
  facts.tp = {};
  facts.zero_stage = said(3, "stage");
  EXPECT_THAT(choices(),
              HasSubstr("not judged: whether zero 1 would fit: give --model, "
                        "--world and --cluster with device_memory"));
  context.world = 64;
  EXPECT_THAT(choices(),
              HasSubstr("fit: give --model and --cluster with device_memory"));
  context.model = load_model_shape("llama-3-8b");
  EXPECT_THAT(choices(), HasSubstr("fit: give --cluster with device_memory"));
  context.device_bytes = int64_t{80} << 30;
  EXPECT_THAT(choices(), HasSubstr("note[slow-choice]: stage: zero 1 fits"));
  context.world = 2;
  EXPECT_EQ(choices(), "");
  facts.bucket_elements = said(int64_t{10'000'000'000}, "bucket");
  EXPECT_THAT(choices(), HasSubstr("holds all"));
}

// 3 * 8 microbatches * 2 bytes of each parameter, where zero 1 sends 4.
TEST_F(Facts, TheZeroStageIsComparedOverTheNetwork) {
  facts.tp = {};
  facts.heads = {};
  facts.accumulation = said(8, "accumulation");
  facts.zero_stage = said(3, "stage");
  context.model = load_model_shape("llama-3-8b");
  context.device_bytes = int64_t{80} << 30;
  context.world = 64;
  context.ranks_on_host = 8;
  context.link_bytes_per_second = 50e9;
  EXPECT_THAT(choices(),
              HasSubstr("zero 3 sends 359.0 GiB a step with 8 microbatches, "
                        "7.71 s at 50.0 GB/s, where zero 1 sends 29.9 GiB"));
  // Stage 2 reduces each microbatch in DeepSpeed alone.
  facts.zero_stage = said(2, "stage");
  EXPECT_EQ(choices(), "");
  config.system = System::kDeepSpeed;
  facts.precision = {"bf16", "bf16", {"a", 1, 1}, false};
  facts.offload_optimizer = {"none", "", {}, true};
  facts.offload_parameters = facts.offload_optimizer;
  EXPECT_THAT(choices(), HasSubstr("note[slow-choice]: stage: zero 1 fits"));
  EXPECT_THAT(choices(), HasSubstr("zero 2 sends"));
  facts.accumulation = said(1, "accumulation");
  EXPECT_EQ(choices(), "");
  // Within one host nothing crosses the network.
  facts.accumulation = said(8, "accumulation");
  context.world = 8;
  EXPECT_EQ(choices(), "");
}

TEST_F(Facts, RecomputeIsComparedWithTheMemoryThatIsFree) {
  facts.tp = {};
  facts.heads = {};
  facts.recompute = {"full", "recompute", {"a", 1, 1}, false};
  EXPECT_EQ(choices(), "");
  facts.sequence = said(4096, "length");
  facts.microbatch = said(1, "micro");
  facts.zero_stage = said(1, "zero");
  EXPECT_THAT(choices(),
              HasSubstr("not judged: whether memory is free without recompute: "
                        "give --model, --world and --cluster"));
  context.model = load_model_shape("llama-3.2-1b");
  context.device_bytes = int64_t{80} << 30;
  context.world = 8;
  EXPECT_THAT(choices(),
              HasSubstr("note[slow-choice]: recompute: memory is free without "
                        "full recompute: states"));
  // 32 layers of 8 B parameters and 8 sequences of 8192 tokens do not fit.
  context.model = load_model_shape("llama-3-8b");
  facts.sequence = said(8192, "length");
  facts.microbatch = said(8, "micro");
  EXPECT_EQ(choices(), "");
  facts.recompute = {"selective", "recompute", {"a", 1, 1}, false};
  EXPECT_EQ(choices(), "");
}

// The matrices of ModelSizes are all but a thousandth of the model.
TEST_F(Facts, TheModelsSizesGiveItsParameters) {
  for (const char* name : {"gpt2-xl", "llama-3-8b", "smollm2-135m"}) {
    context.model = load_model_shape(name);
    facts = {};
    ForeignFindings findings(config, facts, context);
    const std::optional<ModelSizes> sizes = model_sizes(findings);
    ASSERT_TRUE(sizes);
    const auto exact = static_cast<double>(num_parameters(*context.model));
    EXPECT_NEAR(sizes->parameters() / exact, 1.0, 2e-3) << name;
  }
  context.model = {};
  facts.layers = said(INT64_MAX, "layers");
  facts.hidden = facts.layers;
  facts.heads = facts.layers;
  facts.ffn = facts.layers;
  facts.vocabulary = facts.layers;
  facts.bucket_elements = facts.layers;
  facts.zero_stage = said(3, "stage");
  facts.recompute = {"full", "recompute", {"a", 1, 1}, false};
  facts.sequence = facts.layers;
  facts.microbatch = facts.layers;
  context.world = 1 << 20;
  context.device_bytes = INT64_MAX;
  EXPECT_EQ(choices(), "");
}

TEST_F(Facts, ShortRunsMayHaveFewMicrobatches) {
  facts.pp = said(4, "pp");
  facts.accumulation = said(2, "steps of a batch");
  EXPECT_THAT(choices(), HasSubstr("warning[few-microbatches]"));
  facts.steps = said(100, "steps");
  EXPECT_THAT(choices(), HasSubstr("note[few-microbatches]"));
  facts.steps = said(101, "steps");
  EXPECT_THAT(choices(), HasSubstr("warning[few-microbatches]"));
  facts.accumulation = said(4, "steps of a batch");
  EXPECT_THAT(choices(), HasSubstr("note[few-microbatches]"));
}

TEST_F(Facts, TheRateFollowsTheBatch) {
  facts.tp = {};
  facts.global_batch = said(256, "batch");
  facts.lr = {3e-4, "lr", {"a", 1, 1}, false};
  RunFacts old = facts;
  old.file = "old";
  old.global_batch = said(64, "batch");
  context.reference = old;
  EXPECT_THAT(choices(),
              HasSubstr("warning[lr-not-scaled]: lr: the global "
                        "batch is 256 and was 64 in old, 4 times "
                        "as much, and the learning rate stayed "
                        "0.0003"));
  EXPECT_THAT(choices(), HasSubstr("Adam: 0.0006"));
  facts.lr = {6e-4, "lr", {"a", 1, 1}, false};
  EXPECT_EQ(choices(), "");
}

TEST(ModelShapes, AreReadOfAnyConfigJson) {
  const ModelConfig model = parse_model_shape(
      R"({"model_type": "qwen9", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "text": [1]})",
      "c");
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.num_key_value_heads, 4);
  EXPECT_ANY_THROW(parse_model_shape("{}", "c"));
  EXPECT_ANY_THROW(parse_model_shape("[]", "c"));
  EXPECT_ANY_THROW(load_model_shape("no-such-model"));
}

}  // namespace
}  // namespace triax
