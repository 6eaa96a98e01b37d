// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/system.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

using testing::Contains;
using testing::HasSubstr;

TranslationSource run_of_triax() {
  LoadedConfig loaded = parse_config(
      "[parallel]\ntp = 2\npp = 2\n"
      "[training]\nmicrobatch_size = 2\ngradient_accumulation_steps = 4\n"
      "precision = \"bf16_autocast\"\nsteps = 500\n"
      "[optimizer]\nlr = 3e-4\nwarmup_steps = 50\nschedule = \"cosine\"\n",
      "a.toml");
  resolve(loaded, 8);
  EXPECT_TRUE(loaded.problems.empty());
  return translation_source(loaded);
}

void set_fact(TranslationSource& source,
              const std::string& name,
              Json value,
              const std::string& key) {
  for (NamedFact& fact : source.facts) {
    if (fact.name == name) {
      fact.value = std::move(value);
      fact.keys = {key};
      source.keys.push_back({key, "?"});
      return;
    }
  }
  source.facts.push_back({name, std::move(value), {key}});
  source.keys.push_back({key, "?"});
}

TranslationSource with_zero_one() {
  TranslationSource source = run_of_triax();
  set_fact(source, "zero_stage", 1, "parallel.zero");
  return source;
}

Translation from_deepspeed(const std::string& json,
                           System to,
                           const TranslationContext& context = {}) {
  return translate(translation_source(read_deepspeed(json, "d.json"), context),
                   to);
}

TEST(Translate, ToTriaxIsReadBackAsTheSameRun) {
  const Translation back = translate(run_of_triax(), System::kTriax);
  EXPECT_THAT(back.lost, testing::IsEmpty());
  LoadedConfig loaded = parse_config(back.text, "b.toml");
  resolve(loaded, 8);
  for (const Problem& problem : loaded.problems) {
    ADD_FAILURE() << to_text(problem) << "\n" << back.text;
  }
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

TEST(Translate, NamesThePrecisionThatNoOtherSystemHas) {
  LoadedConfig loaded =
      parse_config("[training]\nprecision = \"fp64\"\n", "a.toml");
  resolve(loaded, {});
  for (const System to : {System::kMegatron, System::kDeepSpeed}) {
    const Translation result = translate(translation_source(loaded), to);
    EXPECT_THAT(result.lost,
                testing::Contains(testing::HasSubstr("training.precision")));
  }
}

LoadedConfig mixed_run(const std::string& text) {
  LoadedConfig loaded = parse_config(text, "a.toml");
  resolve(loaded, 8);
  EXPECT_TRUE(loaded.problems.empty());
  return loaded;
}

// The model in 16 bits beside fp32 masters is what DeepSpeed and Megatron-LM
// call bf16 and fp16; torchtitan's weights stay fp32.
TEST(Translate, TellsTheModelsTypeFromThatOfTheProducts) {
  const auto precision_from = [](const std::string& json) {
    const Translation back = from_deepspeed(json, System::kTriax);
    return mixed_run(back.text).config.training.precision;
  };
  EXPECT_EQ(precision_from("{\"bf16\": {\"enabled\": true}}"),
            Precision::kBf16);
  EXPECT_EQ(precision_from("{\"fp16\": {\"enabled\": true}}"),
            Precision::kFp16);
  const ForeignConfig titan =
      find_system(System::kTorchTitan)
          ->read(
              "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n"
              "[training]\nmixed_precision_param = \"bfloat16\"\n",
              "t.toml");
  EXPECT_THAT(
      translate(translation_source(titan, {.world = 8}), System::kTriax).text,
      HasSubstr("precision = \"bf16_autocast\""));
}

TEST(Translate, CarriesTheLossScaleAndTheReductionsType) {
  const LoadedConfig run = mixed_run(
      "[parallel]\nreduce_dtype = \"bf16\"\n[training]\nprecision = \"fp16\"\n"
      "initial_loss_scale = 4096.0\nmin_loss_scale = 2.0\n"
      "loss_scale_window = 300\n");
  const TranslationSource source = translation_source(run);
  const std::string flags = translate(source, System::kMegatron).text;
  for (const char* flag : {"--fp16\n",
                           "--grad-reduce-in-bf16\n",
                           "--initial-loss-scale 4096",
                           "--min-loss-scale 2",
                           "--loss-scale-window 300\n"}) {
    EXPECT_THAT(flags, HasSubstr(flag));
  }
  const std::string json = translate(source, System::kDeepSpeed).text;
  EXPECT_THAT(json, HasSubstr("\"initial_scale_power\": 12"));
  for (const Translation& there : {translate(source, System::kTriax),
                                   from_deepspeed(json, System::kTriax)}) {
    const RunConfig back = mixed_run(there.text).config;
    EXPECT_EQ(back.training.precision, Precision::kFp16);
    EXPECT_EQ(back.training.initial_loss_scale, 4096.0);
    EXPECT_EQ(back.training.min_loss_scale, 2.0);
    EXPECT_EQ(back.training.loss_scale_window, 300);
    EXPECT_EQ(back.parallel.reduce_dtype, ReduceDtype::kBf16);
  }
}

TEST(Translate, WritesEachSystemsForm) {
  const TranslationSource facts = with_zero_one();
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
  EXPECT_THAT(toml.lost, Contains(HasSubstr("FSDP shards the gradients too")));
}

TEST(Translate, LosesNothingInSilence) {
  TranslationSource source = run_of_triax();
  set_fact(source, "offload_parameters", "nvme", "x");
  EXPECT_THAT(translate(source, System::kNanotron).lost,
              Contains(HasSubstr("offload_parameters \"nvme\" (from x)")));
  set_fact(source, "optimizer", "lion", "y");
  EXPECT_THAT(translate(source, System::kMegatron).lost,
              Contains(HasSubstr("optimizer \"lion\" (from y)")));
}

TEST(Translate, NamesWhatNobodyKnowsYet) {
  const Translation result = from_deepspeed(
      "{\"train_batch_size\": \"auto\", \"optimizer\": {\"type\": \"AdamW\","
      " \"params\": {\"lr\": \"auto\"}}, \"zero_optimization\": {\"stage\": 3,"
      " \"stage3_max_live_parameters\": 7}}",
      System::kTorchTitan);
  EXPECT_THAT(result.lost, Contains(HasSubstr("train_batch_size \"auto\"")));
  EXPECT_THAT(result.lost, Contains(HasSubstr("optimizer.params.lr \"auto\"")));
  EXPECT_THAT(
      result.lost,
      Contains(HasSubstr("zero_optimization.stage3_max_live_parameters 7")));
}

// DeepSpeed's Adam is AdamW unless it says otherwise; TorchTitan's is not.
TEST(Translate, KeepsHowWeightDecayWorks) {
  const auto adam = [](const std::string& type, const std::string& mode) {
    return "{\"train_batch_size\": 8, \"optimizer\": {\"type\": \"" + type +
           "\", \"params\": {\"weight_decay\": 0.1" + mode + "}}}";
  };
  const std::string off = ", \"adam_w_mode\": false";
  const auto to = [&](const std::string& json, System system) {
    return from_deepspeed(json, system);
  };
  EXPECT_THAT(to(adam("Adam", ""), System::kTorchTitan).text,
              HasSubstr("name = \"AdamW\"\n"));
  EXPECT_THAT(to(adam("Adam", off), System::kTorchTitan).text,
              HasSubstr("name = \"Adam\"\n"));
  EXPECT_THAT(to(adam("AdamW", off), System::kTorchTitan).text,
              HasSubstr("name = \"AdamW\"\n"));
  for (const System system :
       {System::kMegatron, System::kNanotron, System::kTriax}) {
    EXPECT_THAT(to(adam("Adam", off), system).lost,
                Contains(HasSubstr("part of the gradient")));
    EXPECT_THAT(to(adam("Adam", ""), system).lost,
                testing::Not(Contains(HasSubstr("part of the gradient"))));
  }
  const ForeignConfig titan = read_torchtitan(
      "[optimizer]\nname = \"Adam\"\nweight_decay = 0.1\n", "t.toml");
  EXPECT_THAT(translate(translation_source(titan), System::kDeepSpeed).text,
              HasSubstr("\"adam_w_mode\": false"));
  const ForeignConfig flags =
      read_megatron_words({"--optimizer", "adam", "--lr", "1e-4"});
  EXPECT_THAT(translate(translation_source(flags), System::kTorchTitan).text,
              HasSubstr("name = \"AdamW\"\n"));
}

// 1e-08 is a text in YAML 1.1.
TEST(Translate, WritesNumbersThatYamlTakesForNumbers) {
  const std::string yaml = translate(with_zero_one(), System::kNanotron).text;
  EXPECT_THAT(yaml, HasSubstr("adam_eps: 1.0e-08\n"));
  const ForeignConfig config = read_nanotron(yaml, "n.yaml");
  EXPECT_THAT(config.problems, testing::IsEmpty());
  EXPECT_EQ(*nanotron_facts(config).adam_eps, 1e-8);
}

TEST(Translate, TakesTheRanksAndTheModelFromBeside) {
  ModelConfig model;
  model.num_hidden_layers = 7;
  const std::string json =
      "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2}";
  const Translation alone = from_deepspeed(json, System::kNanotron);
  EXPECT_THAT(alone.text, HasSubstr("batch_accumulation_per_replica: 32\n"));
  EXPECT_THAT(alone.open, Contains(HasSubstr("num_hidden_layers")));
  const Translation told =
      from_deepspeed(json, System::kNanotron, {.world = 8, .model = model});
  EXPECT_THAT(told.text, HasSubstr("  dp: 8\n"));
  EXPECT_THAT(told.text, HasSubstr("batch_accumulation_per_replica: 4\n"));
  EXPECT_THAT(told.text, HasSubstr("num_hidden_layers: 7\n"));
  EXPECT_THAT(told.open, testing::Not(Contains(HasSubstr("num_hidden"))));
}

// What a shell would take apart or obey stands in quotes.
TEST(Translate, QuotesWordsForTheShell) {
  TranslationSource source = run_of_triax();
  set_fact(source, "norm_eps", "a b'$(c)", "x");
  EXPECT_THAT(translate(source, System::kMegatron).text,
              HasSubstr("--norm-epsilon 'a b'\\''$(c)'\n"));
}

// They are no numbers in JSON, nor for every parser of TOML.
TEST(Translate, NamesNumbersThatAreNone) {
  const ForeignConfig titan = read_torchtitan(
      "[training]\nmax_norm = inf\n[optimizer]\nlr = nan\n", "t.toml");
  for (const System to : {System::kTriax, System::kMegatron}) {
    const Translation result = translate(translation_source(titan), to);
    EXPECT_THAT(result.text, testing::Not(HasSubstr("null")));
    EXPECT_THAT(result.lost, Contains(HasSubstr("training.max_norm inf")));
    EXPECT_THAT(result.lost, Contains(HasSubstr("optimizer.lr nan")));
  }
}

TEST(Translate, ReadersPassOverAByteOrderMark) {
  const std::string mark = "\xef\xbb\xbf";
  for (const auto& [system, text] : std::vector<std::pair<System, std::string>>{
           {System::kDeepSpeed, "{\"train_batch_size\": 8}"},
           {System::kTorchTitan, "[training]\nsteps = 8\n"},
           {System::kNanotron, "tokens:\n  train_steps: 8\n"},
           {System::kMegatron, "--train-iters 8\n--num-layers 2\n"}}) {
    const ForeignConfig config = find_system(system)->read(mark + text, "file");
    EXPECT_THAT(config.problems, testing::IsEmpty()) << text;
    const RunFacts facts = find_system(system)->facts(config);
    EXPECT_EQ(facts.steps.value_or(facts.global_batch.value_or(0)), 8) << text;
  }
}

TEST(Translate, NamesNumbersThatTheOtherSystemRefuses) {
  const ForeignConfig titan = read_torchtitan(
      "[optimizer]\nlr = -1.0\nbeta1 = 7.0\n[training]\nsteps = -1\n", "t");
  const Translation result =
      translate(translation_source(titan), System::kTriax);
  EXPECT_THAT(result.lost, Contains(HasSubstr("lr -1.0 (from optimizer.lr)")));
  EXPECT_THAT(result.lost, Contains(HasSubstr("beta1 7.0")));
  EXPECT_THAT(result.open, Contains(HasSubstr("optimizer.lr (")));
  EXPECT_THAT(result.text, testing::Not(HasSubstr("-1")));
  EXPECT_THAT(result.text, testing::Not(HasSubstr("7.0")));
}

}  // namespace
}  // namespace triax
