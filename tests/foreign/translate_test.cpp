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
using testing::Not;

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

// TorchTitan's key is FSDP's.
TEST(Translate, CarriesTheReductionsTypeToTorchTitan) {
  const auto from = [](const std::string& parallel) {
    return translate(translation_source(mixed_run(
                         "[parallel]\nreduce_dtype = \"bf16\"\n" + parallel)),
                     System::kTorchTitan);
  };
  const Translation sharded = from("zero = 2\n");
  EXPECT_THAT(sharded.text, HasSubstr("mixed_precision_reduce = \"bfloat16\""));
  EXPECT_THAT(sharded.lost, Not(Contains(HasSubstr("reduce_dtype"))));
  const ForeignConfig titan = read_torchtitan(sharded.text, "t.toml");
  EXPECT_EQ(*torchtitan_facts(titan).reduce_dtype, "bf16");
  const Translation whole = from("zero = 0\n");
  EXPECT_THAT(whole.text, Not(HasSubstr("mixed_precision_reduce")));
  EXPECT_THAT(whole.lost,
              Contains(HasSubstr("(from parallel.reduce_dtype): "
                                 "training.mixed_precision_reduce is FSDP's")));
}

std::string deepspeed_offload(const std::string& optimizer,
                              const std::string& parameters) {
  const std::string path = ", \"nvme_path\": \"/disk\"}";
  return "{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 3, "
         "\"offload_optimizer\": {\"device\": \"" +
         optimizer + "\"" + path + ", \"offload_param\": {\"device\": \"" +
         parameters + "\"" + path + "}}";
}

TEST(Translate, CarriesOffloadToFiles) {
  const auto to_triax = [](const std::string& json) {
    return from_deepspeed(json, System::kTriax, {.world = 8});
  };
  const Translation both = to_triax(deepspeed_offload("nvme", "nvme"));
  const MemoryConfig memory = mixed_run(both.text).config.memory;
  EXPECT_EQ(memory.offload, Offload::kNvme);
  EXPECT_EQ(memory.offload_states,
            (std::vector<std::string>{"optimizer", "parameters"}));
  EXPECT_EQ(memory.offload_dir, "/disk");
  EXPECT_THAT(both.lost, Not(Contains(HasSubstr("offload"))));
  // triax has no other order: parameters leave memory last.
  const Translation parameters = to_triax(deepspeed_offload("none", "nvme"));
  EXPECT_THAT(parameters.text, Not(HasSubstr("offload")));
  EXPECT_THAT(parameters.lost,
              Contains(HasSubstr("offload_parameters \"nvme\" (from "
                                 "zero_optimization.offload_param.device): "
                                 "triax keeps parameters on file with")));
  std::string two_folders = deepspeed_offload("nvme", "nvme");
  two_folders.replace(two_folders.rfind("/disk"), 5, "/other");
  EXPECT_THAT(to_triax(two_folders).lost,
              Contains(HasSubstr("zero_optimization.offload_param.nvme_path "
                                 "\"/other\": nothing lies there, or ")));
  // Its ranks are where DeepSpeed's "cpu" is.
  const Translation host = to_triax(deepspeed_offload("cpu", "cpu"));
  EXPECT_THAT(host.text, Not(HasSubstr("offload")));
  EXPECT_THAT(host.implied,
              Contains("zero_optimization.offload_optimizer.device"));
  EXPECT_THAT(host.lost,
              Contains(HasSubstr("zero_optimization.offload_param.nvme_path")));
}

TEST(Translate, CarriesOffloadFromTriax) {
  const std::string run =
      "[memory]\noffload = \"nvme\"\noffload_dir = \"/disk\"\n"
      "offload_states = [\"optimizer\", \"parameters\", \"activations\"]\n"
      "[parallel]\nzero = ";
  const TranslationSource source = translation_source(mixed_run(run + "3\n"));
  const MemoryConfig again =
      mixed_run(translate(source, System::kTriax).text).config.memory;
  EXPECT_EQ(again, mixed_run(run + "3\n").config.memory);
  const Translation json = translate(source, System::kDeepSpeed);
  const ForeignConfig config = read_deepspeed(json.text, "d.json");
  EXPECT_EQ(*deepspeed_facts(config).offload_optimizer, "nvme");
  EXPECT_EQ(*deepspeed_facts(config).offload_parameters, "nvme");
  EXPECT_THAT(json.text, HasSubstr("\"nvme_path\": \"/disk\""));
  EXPECT_THAT(json.lost,
              Contains(HasSubstr("offload_activations \"nvme\" (from "
                                 "memory.offload, memory.offload_states)")));
  EXPECT_THAT(
      translate(translation_source(mixed_run(run + "1\n")), System::kDeepSpeed)
          .lost,
      Contains(HasSubstr("below ZeRO 3 DeepSpeed keeps it in")));
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

// DeepSpeed's schedules rise by the logarithm unless they are told otherwise.
TEST(Translate, NamesAWarmupThatIsNotLinear) {
  const auto config = [](const std::string& more) {
    return "{\"train_batch_size\": 8, \"scheduler\": {\"type\": "
           "\"WarmupDecayLR\", \"params\": {\"total_num_steps\": 500" +
           more + "}}}";
  };
  const Translation usual = from_deepspeed(config(""), System::kMegatron);
  EXPECT_THAT(usual.lost, Contains(HasSubstr("warmup_shape \"log\"")));
  EXPECT_THAT(usual.text, HasSubstr("--lr-warmup-iters"));
  EXPECT_THAT(
      from_deepspeed(config(", \"warmup_type\": \"log\""), System::kTriax).lost,
      Contains(HasSubstr("from scheduler.params.warmup_type")));
  EXPECT_THAT(
      from_deepspeed(config(", \"warmup_type\": \"linear\""), System::kMegatron)
          .lost,
      testing::Not(Contains(HasSubstr("warmup_shape"))));
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

TranslationSource source_of_run(const std::string& more) {
  LoadedConfig loaded = parse_config(
      "[training]\nsteps = 500\nmicrobatch_size = 2\n" + more, "a.toml");
  resolve(loaded, 8);
  EXPECT_TRUE(loaded.problems.empty());
  return translation_source(loaded);
}

std::string carried(const std::string& more, System to) {
  return translate(source_of_run(more), to).text;
}

std::string lost_of(const std::string& more, System to) {
  std::string all;
  for (const std::string& clause : translate(source_of_run(more), to).lost) {
    all += clause + "\n";
  }
  return all;
}

TEST(Translate, CarriesWarmupStableDecay) {
  const std::string wsd = "[optimizer]\nschedule = \"wsd\"\ndecay_steps = 50\n";
  EXPECT_THAT(carried(wsd, System::kMegatron),
              testing::AllOf(HasSubstr("--lr-decay-style WSD\n"),
                             HasSubstr("--lr-wsd-decay-style linear\n"),
                             HasSubstr("--lr-wsd-decay-iters 50\n")));
  EXPECT_THAT(carried(wsd, System::kTorchTitan),
              testing::AllOf(HasSubstr("decay_ratio = 0.1\n"),
                             HasSubstr("decay_type = \"linear\"\n")));
  EXPECT_THAT(carried(wsd, System::kNanotron),
              testing::AllOf(HasSubstr("lr_decay_style: \"linear\"\n"),
                             HasSubstr("lr_decay_starting_step: 450\n"),
                             HasSubstr("lr_decay_steps: 50\n")));
  for (const System to :
       {System::kMegatron, System::kTorchTitan, System::kNanotron}) {
    EXPECT_THAT(lost_of(wsd, to), testing::Not(HasSubstr("wsd")))
        << lost_of(wsd, to);
    EXPECT_THAT(lost_of(wsd, to), testing::Not(HasSubstr("decay_steps")));
  }
  EXPECT_THAT(lost_of(wsd, System::kDeepSpeed),
              HasSubstr("optimizer.schedule"));
}

TEST(Translate, ReadsWarmupStableDecayBack) {
  const auto to_triax = [](const ForeignConfig& config) {
    return translate(translation_source(config), System::kTriax).text;
  };
  const auto is_wsd = testing::AllOf(HasSubstr("schedule = \"wsd\"\n"),
                                     HasSubstr("decay_steps = 50\n"));
  EXPECT_THAT(to_triax(read_megatron_words({"--train-iters",
                                            "500",
                                            "--lr-decay-style",
                                            "WSD",
                                            "--lr-wsd-decay-iters",
                                            "50",
                                            "--lr-wsd-decay-style",
                                            "linear"})),
              is_wsd);
  EXPECT_THAT(
      to_triax(read_torchtitan("[training]\nsteps = 500\n[lr_scheduler]\n"
                               "decay_ratio = 0.1\nwarmup_steps = 10\n",
                               "a.toml")),
      is_wsd);
  EXPECT_THAT(to_triax(read_nanotron(
                  "tokens: {train_steps: 500}\noptimizer:\n"
                  "  learning_rate_scheduler: {lr_warmup_steps: 10, "
                  "lr_decay_style: linear, lr_decay_starting_step: 450, "
                  "lr_decay_steps: 50}\n",
                  "a.yaml")),
              is_wsd);
  // Another decay is said.
  const Translation other =
      translate(translation_source(read_megatron_words({"--train-iters",
                                                        "500",
                                                        "--lr-decay-style",
                                                        "WSD",
                                                        "--lr-wsd-decay-iters",
                                                        "50"})),
                System::kTriax);
  EXPECT_THAT(other.lost, Contains(HasSubstr("wsd_style \"exponential\"")));
}

TEST(Translate, CarriesGroupsOfShards) {
  const std::string groups = "[parallel]\ndp = 8\nzero_group = 2\nzero = ";
  EXPECT_THAT(carried(groups + "1\n", System::kMegatron),
              HasSubstr("--num-distributed-optimizer-instances 4\n"));
  EXPECT_THAT(lost_of(groups + "2\n", System::kMegatron),
              HasSubstr("zero_group 2"));
  EXPECT_THAT(carried(groups + "2\n", System::kTorchTitan),
              testing::AllOf(HasSubstr("data_parallel_replicate_degree = 4\n"),
                             HasSubstr("data_parallel_shard_degree = 2\n")));
  for (const System to : {System::kDeepSpeed, System::kNanotron}) {
    EXPECT_THAT(lost_of(groups + "2\n", to), HasSubstr("zero_group 2"));
  }
}

TEST(Translate, CarriesLlama3sRopeScaling) {
  const std::string scaled =
      "[model.rope_scaling]\ntype = \"llama3\"\nfactor = 32.0\n";
  EXPECT_THAT(carried(scaled, System::kMegatron),
              testing::AllOf(HasSubstr("--use-rope-scaling\n"),
                             HasSubstr("--rope-scaling-factor 32.0\n")));
  EXPECT_THAT(lost_of(scaled, System::kMegatron),
              testing::Not(HasSubstr("rope_scaling")));
  const std::string other = scaled + "low_freq_factor = 2.0\n";
  EXPECT_THAT(carried(other, System::kMegatron),
              testing::Not(HasSubstr("rope-scaling")));
  EXPECT_THAT(lost_of(other, System::kMegatron),
              testing::AllOf(HasSubstr("model.rope_scaling.type"),
                             HasSubstr("low_freq_factor")));
  EXPECT_THAT(lost_of(scaled, System::kNanotron),
              HasSubstr("model.rope_scaling.type"));
  EXPECT_THAT(translate(translation_source(
                            read_megatron_words({"--position-embedding-type",
                                                 "rope",
                                                 "--use-rope-scaling",
                                                 "--rope-scaling-factor",
                                                 "32"})),
                        System::kTriax)
                  .text,
              testing::AllOf(HasSubstr("type = \"llama3\"\n"),
                             HasSubstr("factor = 32.0\n")));
}

TEST(Translate, WritesTheLayoutOfNanotronsPackage) {
  const Translation old = translate(
      source_of_run("[parallel]\ntp = 2\n[memory]\nrecompute = \"full\"\n"),
      System::kNanotron,
      "0.4");
  EXPECT_THAT(old.text, testing::Not(HasSubstr("optimizer_factory")));
  EXPECT_THAT(old.text, testing::Not(HasSubstr("rope_theta")));
  const ForeignConfig config = read_nanotron(old.text, "a.yaml");
  EXPECT_TRUE(is_old_nanotron(config));
  EXPECT_EQ(real_at(config, "optimizer.adam_beta2").value_or(0), 0.95);
  EXPECT_TRUE(find_value(config.table, "tokenizer") != nullptr);
  EXPECT_THAT(old.lost,
              Contains(HasSubstr("memory.recompute): nanotron 0.4 has no such "
                                 "key")));
  const Translation sgd = translate(
      source_of_run("[optimizer]\nname = \"sgd\"\n"), System::kNanotron, "0.4");
  EXPECT_THAT(sgd.lost, Contains(HasSubstr("nanotron 0.4 has no other")));
}

}  // namespace
}  // namespace triax
