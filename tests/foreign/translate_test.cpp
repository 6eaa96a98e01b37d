// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/foreign/deepspeed.h"
#include "triax/foreign/triax_facts.h"

namespace triax {
namespace {

using testing::Contains;
using testing::HasSubstr;

RunFacts run_of_triax() {
  LoadedConfig loaded = parse_config(
      "[parallel]\ntp = 2\npp = 2\n"
      "[training]\nmicrobatch_size = 2\ngradient_accumulation_steps = 4\n"
      "precision = \"bf16_autocast\"\nsteps = 500\n"
      "[optimizer]\nlr = 3e-4\nwarmup_steps = 50\nschedule = \"cosine\"\n",
      "a.toml");
  resolve(loaded, 8);
  EXPECT_TRUE(loaded.problems.empty());
  return triax_facts(loaded);
}

RunFacts with_zero_one() {
  RunFacts facts = run_of_triax();
  facts.zero_stage.value = 1;
  return facts;
}

TEST(Translate, ToTriaxIsReadBackAsTheSameRun) {
  const RunFacts facts = run_of_triax();
  const Translation back = translate(facts, System::kTriax);
  EXPECT_THAT(back.lost, testing::IsEmpty());
  LoadedConfig loaded = parse_config(back.text, "b.toml");
  resolve(loaded, 8);
  for (const Problem& problem : loaded.problems) {
    ADD_FAILURE() << to_text(problem) << "\n" << back.text;
  }
  LoadedConfig first = parse_config("[parallel]\ntp = 2\npp = 2\n", "a.toml");
  EXPECT_EQ(loaded.config.parallel.tp, 2);
  EXPECT_EQ(loaded.config.training.global_batch_size, 16);
  EXPECT_EQ(loaded.config.training.precision, Precision::kBf16Autocast);
  EXPECT_EQ(loaded.config.optimizer.lr, 3e-4);
  EXPECT_EQ(loaded.config.optimizer.betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(loaded.config.optimizer.schedule, "cosine");
}

TEST(Translate, ToDeepSpeedIsReadBackAsTheSameFacts) {
  const Translation json = translate(with_zero_one(), System::kDeepSpeed);
  EXPECT_THAT(json.lost, Contains(HasSubstr("pp 2 (from parallel.pp)")));
  const ForeignConfig config = read_deepspeed(json.text, "d.json");
  EXPECT_THAT(config.problems, testing::IsEmpty()) << json.text;
  const RunFacts facts = deepspeed_facts(config);
  EXPECT_EQ(*facts.microbatch, 2);
  EXPECT_EQ(*facts.accumulation, 4);
  EXPECT_EQ(*facts.global_batch, 16);
  EXPECT_EQ(*facts.zero_stage, 1);
  EXPECT_EQ(*facts.precision, "bf16");
  EXPECT_EQ(*facts.tp, 2);
  EXPECT_EQ(*facts.beta2, 0.95);
  EXPECT_EQ(*facts.lr, 3e-4);
  EXPECT_EQ(*facts.lr_schedule, "WarmupCosineLR");
  EXPECT_EQ(*facts.warmup_steps, 50);
  EXPECT_EQ(*facts.steps, 500);
}

TEST(Translate, WritesEachSystemsForm) {
  const RunFacts facts = with_zero_one();
  const std::string flags = translate(facts, System::kMegatron).text;
  for (const char* flag : {"--tensor-model-parallel-size 2\n",
                           "--pipeline-model-parallel-size 2\n",
                           "--use-distributed-optimizer\n",
                           "--micro-batch-size 2\n",
                           "--global-batch-size 16\n",
                           "--bf16\n",
                           "--lr-decay-style cosine\n",
                           "--swiglu\n",
                           "--untie-embeddings-and-output-weights\n"}) {
    EXPECT_THAT(flags, HasSubstr(flag));
  }
  const std::string yaml = translate(facts, System::kNanotron).text;
  EXPECT_THAT(yaml, HasSubstr("parallelism:\n  tp: 2\n  pp: 2\n  dp: 2\n"));
  EXPECT_THAT(yaml, HasSubstr("  batch_accumulation_per_replica: 4\n"));
  const Translation toml = translate(facts, System::kTorchTitan);
  EXPECT_THAT(toml.text, HasSubstr("[parallelism]\n"));
  EXPECT_THAT(toml.text, HasSubstr("pipeline_parallel_schedule = \"1F1B\"\n"));
  EXPECT_THAT(toml.lost, Contains(HasSubstr("FSDP has no stage 1")));
}

TEST(Translate, LosesNothingInSilence) {
  RunFacts facts = run_of_triax();
  facts.offload_parameters = {"nvme", "x", {}, false};
  EXPECT_THAT(translate(facts, System::kNanotron).lost,
              Contains(HasSubstr("offload_parameters \"nvme\" (from x)")));
  facts.optimizer = {"lion", "y", {}, false};
  EXPECT_THAT(translate(facts, System::kMegatron).lost,
              Contains(HasSubstr("optimizer \"lion\" (from y)")));
}

}  // namespace
}  // namespace triax
