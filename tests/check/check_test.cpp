// SPDX-License-Identifier: Apache-2.0
#include "triax/check/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "triax/base/file.h"
#include "triax/check/findings.h"
#include "triax/config/fields.h"
#include "triax/config/rules.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

using testing::HasSubstr;

// Overrides of the default config, and the one line that check answers with.
struct Case {
  std::vector<std::string> keys;
  std::optional<int> ranks;
  const char* rule;      // "" for none
  const char* severity;  // "error"
  std::vector<std::string> words;
  int num_cores = 0;
  int64_t memory_bytes = 0;
};

void PrintTo(const Case& input, std::ostream* out) {
  for (const std::string& key : input.keys) {
    *out << key << ' ';
  }
}

LoadedConfig load(const Case& input) {
  LoadedConfig loaded = parse_config("", "a.toml", input.keys);
  resolve(loaded, input.ranks);
  return loaded;
}

class Rules : public testing::TestWithParam<Case> {};

TEST_P(Rules, AnswerWithNumbersAndAWayOut) {
  const std::vector<Problem> problems =
      check_run(load(GetParam()),
                {.num_cores = GetParam().num_cores,
                 .memory_bytes = GetParam().memory_bytes,
                 .looks_at_files = false});
  std::string all;
  for (const Problem& problem : problems) {
    all += to_text(problem) + "\n";
  }
  if (*GetParam().rule == '\0') {
    EXPECT_EQ(all, "");
    return;
  }
  ASSERT_EQ(problems.size(), 1u) << all;
  EXPECT_EQ(problems[0].rule, GetParam().rule);
  EXPECT_EQ(severity_name(problems[0].severity), GetParam().severity);
  for (const std::string& words : GetParam().words) {
    EXPECT_THAT(all, HasSubstr(words));
  }
}

std::vector<Case> batch_cases() {
  return {
      {{"training.global_batch_size=8",
        "training.microbatch_size=2",
        "training.gradient_accumulation_steps=1"},
       {},
       "batch-triangle",
       "error",
       {"microbatch_size 2 * gradient_accumulation_steps 1 * dp 1 = 2, not 8",
        "dp was derived from",
        "gradient_accumulation_steps = 4"}},
      {{"training.global_batch_size=256",
        "training.microbatch_size=2",
        "training.gradient_accumulation_steps=18",
        "parallel.dp=7"},
       {},
       "batch-triangle",
       "error",
       {"2 * gradient_accumulation_steps 18 * dp 7 = 252, not 256",
        "use 252 (18 microbatches) or 266 (19 microbatches)"}},
      {{"training.global_batch_size=100",
        "training.microbatch_size=8",
        "parallel.dp=4"},
       {},
       "batch-triangle",
       "error",
       {"100 is not a multiple of microbatch_size 8 * dp 4 = 32",
        "use 96 (3 microbatches) or 128 (4 microbatches)"}},
      {{"training.global_batch_size=3", "training.microbatch_size=8"},
       8,
       "batch-triangle",
       "error",
       {"dp was derived from 8 ranks / (tp 1 * pp 1)",
        "use 64 (1 microbatch)"}},
      {{"training.global_batch_size=96",
        "training.microbatch_size=8",
        "training.gradient_accumulation_steps=3",
        "parallel.dp=4"},
       {},
       "",
       "",
       {}},
      {{"parallel.dp=65536",
        "training.microbatch_size=262144",
        "training.gradient_accumulation_steps=2"},
       {},
       "out-of-range",
       "error",
       {"sequences a step"}},
      {{"parallel.pp=4", "training.global_batch_size=2"},
       {},
       "few-microbatches",
       "warning",
       {"2 microbatches in 4 stages, 60 %"}},
      {{"parallel.pp=2"},
       {},
       "few-microbatches",
       "warning",
       {"1 microbatch in 2 stages, 50 %"}},
      {{"parallel.pp=4", "training.global_batch_size=4"}, {}, "", "", {}},
  };
}

std::vector<Case> layout_cases() {
  return {
      {{"parallel.tp=3", "model.num_attention_heads=12", "model.head_dim=8"},
       8,
       "world-size",
       "error",
       {"8 ranks cannot split over tp 3", "use tp = 1, 2 or 4"}},
      {{"parallel.pp=3", "training.gradient_accumulation_steps=3"},
       8,
       "world-size",
       "error",
       {"parallel.pp: 8 ranks", "use pp = 1, 2 or 4"}},
      {{"parallel.tp=2", "parallel.dp=2"},
       8,
       "world-size",
       "error",
       {"tp 2 * pp 1 * dp 2 = 4 ranks, and 8 would be started", "use dp = 4"}},
      {{"parallel.dp=65536", "parallel.tp=2"},
       {},
       "world-size",
       "error",
       {"more than 65536 ranks"}},
      {{"parallel.tp=2",
        "parallel.pp=2",
        "training.gradient_accumulation_steps=2"},
       8,
       "",
       "",
       {}},
      {{"model.num_attention_heads=12",
        "model.hidden_size=96",
        "parallel.tp=8"},
       {},
       "heads-divide",
       "error",
       {"12 attention heads do not split over tp 8",
        "use tp = 1, 2, 3, 4, 6 or 12"}},
      {{"parallel.tp=4",
        "parallel.sequence_parallel=true",
        "data.sequence_length=130"},
       {},
       "sequence-divides",
       "error",
       {"130 positions do not split over tp 4: 4 * 32 = 128",
        "use data.sequence_length = 128"}},
      {{"parallel.sequence_parallel=true"},
       {},
       "no-effect",
       "warning",
       {"tp is 1"}},
      {{"memory.recompute_layers=4"}, {}, "no-effect", "warning", {"every_k"}},
      {{"model.num_attention_heads=25",
        "model.hidden_size=100",
        "parallel.tp=2"},
       {},
       "heads-divide",
       "error",
       {"use tp = 1, 5 or 25"}},
      {{"model.num_attention_heads=12",
        "model.hidden_size=96",
        "model.num_key_value_heads=4",
        "parallel.tp=6"},
       {},
       "kv-heads-divide",
       "error",
       {"4 key and value heads", "use tp = 1, 2, 4 or 12"}},
      {{"model.num_key_value_heads=2", "parallel.tp=4"}, {}, "", "", {}},
      {{"parallel.pp=5", "training.gradient_accumulation_steps=5"},
       {},
       "layers-fewer-than-stages",
       "error",
       {"4 layers cannot fill 5 stages", "at most 4"}},
      {{"parallel.stages=[2, 3]",
        "parallel.pp=2",
        "training.gradient_accumulation_steps=2"},
       {},
       "stages-fit",
       "error",
       {"2 + 3 = 5 layers, and the model has 4"}},
      {{"parallel.stages=[4]",
        "parallel.pp=2",
        "training.gradient_accumulation_steps=2"},
       {},
       "stages-fit",
       "error",
       {"a list of 1 stage, and pp is 2"}},
      {{"parallel.stages=[1, 3]",
        "parallel.pp=2",
        "training.gradient_accumulation_steps=2"},
       {},
       "",
       "",
       {}},
      {{"parallel.dp=6",
        "parallel.zero=1",
        "parallel.zero_group=4",
        "training.global_batch_size=6"},
       {},
       "zero-group-divides",
       "error",
       {"6 replicas do not split into groups of 4",
        "use zero_group = 1, 2, 3 or 6"}},
      {{"parallel.dp=2", "parallel.zero=1"}, {}, "", "", {}},
      {{"parallel.dp=2", "parallel.zero=2", "parallel.bucket_bytes=1000"},
       {},
       "",
       "",
       {}},
      {{"parallel.dp=2", "parallel.zero=2"},
       {},
       "zero-large-buckets",
       "note",
       {" of gradients and ",
        " of buckets are more than the ",
        " of gradients that zero = 1 keeps"}},
      {{"parallel.dp=2", "parallel.zero=3", "parallel.bucket_bytes=1000"},
       {},
       "",
       "",
       {}},
      {{"parallel.dp=2",
        "parallel.zero=3",
        "parallel.bucket_bytes=1000",
        "parallel.prefetch=3"},
       {},
       "zero-large-units",
       "note",
       {" of parameters and ",
        " of gathered units are more than the ",
        "that zero = 2 keeps"}},
      {{"parallel.dp=2",
        "parallel.zero=3",
        "parallel.bucket_bytes=1000",
        "parallel.reshard_after_forward=false"},
       {},
       "zero-large-units",
       "note",
       {"parallel.reshard_after_forward: ", "use zero = 2, or leave it out"}},
      {{"parallel.dp=9"},
       {},
       "ranks-exceed-cores",
       "warning",
       {"9 ranks share 2 cores", "at most 8"},
       2},
      {{"parallel.dp=4", "training.global_batch_size=4"},
       {},
       "memory-exceeds-machine",
       "warning",
       {"4 ranks need ", "this machine has 1.0 MiB"},
       0,
       1 << 20},
      {{"training.microbatch_size=8", "memory.limit=128MiB"},
       {},
       "memory-exceeds-limit",
       "warning",
       {"the heaviest rank needs 163.2 MiB and what it communicates through, "
        "35.2 MiB more than 128.0 MiB",
        "it would fit with training.microbatch_size = 4 (115.6 MiB: "
        "activations 41.1 MiB instead of 82.2 MiB",
        "or with memory.recompute = \"full\" (a forward pass of the layers "
        "more, 107.1 MiB: "}},
      {{"training.microbatch_size=8", "memory.limit=164MiB"}, {}, "", "", {}},
      {{"comm.deadline=1ms"},
       {},
       "deadline-too-short",
       "error",
       {"1.00 ms is less than", "use at least 1.00 s"}},
      {{"comm.deadline=1s"}, {}, "", "", {}},
      {{"parallel.dp=2", "comm.deadline=1s", "comm.emulate.dp.latency=1s"},
       {},
       "deadline-too-short",
       "error",
       {"a message over dp takes 2.00 s", "gives up"}},
      {{"parallel.pp=2",
        "training.gradient_accumulation_steps=8",
        "comm.deadline=2s",
        "comm.emulate.pp.bandwidth=1kB/s"},
       {},
       "deadline-too-short",
       "error",
       {"a message over pp takes", "waits 2.00 s"}},
      {{"parallel.tp=4"},
       {},
       "tp-exceeds-cores",
       "note",
       {"tp 4 on 2 cores"},
       2},
      {{"parallel.tp=2"}, {}, "", "", {}, 2},
  };
}

std::vector<Case> model_cases() {
  return {
      {{"model.hidden_size=100"},
       {},
       "hidden-heads",
       "error",
       {"hidden_size 100 / num_attention_heads 8 is not whole",
        "use 96 or 104"}},
      {{"model.hidden_size=100", "model.head_dim=16"}, {}, "", "", {}},
      {{"model.hidden_size=24"},
       {},
       "head-dim-odd",
       "error",
       {"head_dim 3 is odd", "head_dim was derived from hidden_size 24"}},
      {{"model.hidden_size=24", "model.family=gpt2"}, {}, "", "", {}},
      {{"model.family=gpt2", "model.num_key_value_heads=4"},
       {},
       "gpt2-shape",
       "error",
       {"each of its 8 heads, not 4"}},
      {{"model.family=gpt2", "model.head_dim=16"},
       {},
       "gpt2-shape",
       "error",
       {"8 heads * head_dim 16 = 128"}},
      {{"model.num_key_value_heads=3"},
       {},
       "kv-heads-divide-heads",
       "error",
       {"use 1, 2, 4 or 8"}},
      {{"model.rope_scaling.type=llama3",
        "model.rope_scaling.high_freq_factor=1.0"},
       {},
       "rope-factors",
       "error",
       {"not above low_freq_factor 1"}},
      {{"data.sequence_length=513", "model.family=gpt2"},
       {},
       "sequence-too-long",
       "error",
       {"sequence_length 513 is above max_position_embeddings 512"}},
      {{"data.sequence_length=513"},
       {},
       "sequence-too-long",
       "warning",
       {"513"}},
      {{"data.sequence_length=512"}, {}, "", "", {}},
  };
}

std::vector<Case> training_cases() {
  return {
      {{"optimizer.warmup_steps=100"},
       {},
       "warmup-steps",
       "warning",
       {"100 steps of warm-up in a run of 100", "fewer than 100"}},
      {{"optimizer.warmup_steps=99"}, {}, "", "", {}},
      {{"optimizer.schedule=wsd",
        "optimizer.warmup_steps=50",
        "optimizer.decay_steps=51"},
       {},
       "warmup-steps",
       "error",
       {"warmup_steps 50 + decay_steps 51 is above steps 100"}},
      {{"optimizer.lr=3e4"},
       {},
       "out-of-range",
       "warning",
       {"Adam moves each weight by about 30000 in every step",
        "is the exponent's sign missing?"}},
      {{"optimizer.lr=3", "optimizer.name=\"sgd\""}, {}, "", "", {}},
      {{"optimizer.min_lr=1.0"},
       {},
       "lr-order",
       "error",
       {"min_lr 1 is above lr 0.001"}},
      {{"optimizer.lr=0", "optimizer.group=[{pattern=\"*\", lr=1}]"},
       {},
       "lr-order",
       "error",
       {"follows the schedule"}},
      {{"training.gradient_clipping=0"},
       {},
       "clipping-off",
       "note",
       {"turns clipping off"}},
      {{"training.initial_loss_scale=1024"},
       {},
       "no-effect",
       "warning",
       {"only training.precision = \"fp16\" has a loss scale"}},
      {{"training.loss_scale_window=7", "training.precision=bf16"},
       {},
       "no-effect",
       "warning",
       {"training.loss_scale_window"}},
      {{"training.precision=bf16"}, {}, "", "", {}},
      {{"training.precision=fp16"},
       {},
       "slow-choice",
       "note",
       {"multiplies fp16 many times slower", "use \"bf16\""}},
      {{"parallel.reduce_dtype=bf16"}, {}, "no-effect", "warning", {"dp is 1"}},
      {{"parallel.reduce_dtype=bf16", "parallel.dp=2"}, {}, "", "", {}},
      {{"parallel.reduce_dtype=fp16", "parallel.dp=2"},
       {},
       "reduce-dtype-range",
       "warning",
       {"below 6e-8 vanish", "use \"bf16\""}},
      {{"optimizer.momentum=0.9"},
       {},
       "no-effect",
       "warning",
       {"only sgd has momentum"}},
      {{"optimizer.name=sgd", "optimizer.momentum=0.9"}, {}, "", "", {}},
      // A default that is written out, as --print-config does, is no mistake.
      {{"optimizer.momentum=0.0"}, {}, "", "", {}},
      {{"parallel.zero=2"},
       {},
       "no-effect",
       "warning",
       {"one replica holds everything"}},
      {{"parallel.dp=2",
        "parallel.zero=2",
        "parallel.bucket_bytes=1000",
        "parallel.prefetch=2"},
       {},
       "no-effect",
       "warning",
       {"parallel.prefetch: does nothing: only zero = 3"}},
      {{"parallel.dp=2", "parallel.zero_group=2"},
       {},
       "no-effect",
       "warning",
       {"parallel.zero is 0"}},
      {{"data.validation=0.1"},
       {},
       "no-effect",
       "warning",
       {"validate_every is 0"}},
      {{"comm.emulate.dp.latency=2ms"},
       {},
       "no-effect",
       "warning",
       {"comm.emulate.dp.latency: does nothing: dp is 1"}},
      {{"comm.emulate.tp.jitter=0.5", "parallel.tp=2"},
       {},
       "no-effect",
       "warning",
       {"share of what an operation costs"}},
      {{"comm.emulate.tp.latency=0s", "parallel.tp=2"},
       {},
       "no-effect",
       "warning",
       {"no latency and no limit"}},
      {{"comm.emulate.tp.latency=2ms", "parallel.tp=2"}, {}, "", "", {}},
  };
}

std::vector<Case> pattern_cases() {
  return {
      {{"optimizer.freeze=[\"embed_tokens\"]"},
       {},
       "pattern-matches-nothing",
       "error",
       {"\"embed_tokens\" matches no parameter", "lm_head.weight"}},
      {{"optimizer.group=[{pattern=\"x\", lr=1}]"},
       {},
       "pattern-matches-nothing",
       "error",
       {"optimizer.group"}},
      {{"optimizer.freeze=[\"*embed_tokens*\"]"}, {}, "", "", {}},
      {{"optimizer.freeze=[\"*q_proj*\"]"},
       {},
       "pattern-splits-fused",
       "error",
       {"optimizer.freeze",
        "model.layers.0.self_attn.q_proj.weight and "
        "model.layers.0.self_attn.k_proj.weight",
        "v_proj"}},
      {{"optimizer.freeze=[\"*.q_proj.*\", \"*.k_proj.*\", \"*.v_proj.*\"]"},
       {},
       "",
       "",
       {}},
      {{"optimizer.group=[{pattern=\"*gate_proj*\", weight_decay=0}]"},
       {},
       "pattern-splits-fused",
       "error",
       {"optimizer.group", "gate_proj", "up_proj"}},
      {{"optimizer.group=[{pattern=\"*gate_proj*\", weight_decay=0}, "
        "{pattern=\"*up_proj*\", weight_decay=0}]"},
       {},
       "",
       "",
       {}},
      {{"optimizer.freeze=[\"*\"]"}, {}, "nothing-to-train", "error", {}},
      {{"optimizer.freeze=[\"*c_attn*\"]", "model.family=gpt2"},
       {},
       "",
       "",
       {}},
  };
}

INSTANTIATE_TEST_SUITE_P(Batch, Rules, testing::ValuesIn(batch_cases()));
INSTANTIATE_TEST_SUITE_P(Layout, Rules, testing::ValuesIn(layout_cases()));
INSTANTIATE_TEST_SUITE_P(Model, Rules, testing::ValuesIn(model_cases()));
INSTANTIATE_TEST_SUITE_P(Training, Rules, testing::ValuesIn(training_cases()));
INSTANTIATE_TEST_SUITE_P(Patterns, Rules, testing::ValuesIn(pattern_cases()));

TEST(Check, ADefaultConfigHasNothingToSay) {
  LoadedConfig loaded = parse_config("", "a.toml");
  resolve(loaded);
  EXPECT_TRUE(check_run(loaded, {.looks_at_files = false}).empty());
}

TEST(Check, CountsWhatVerifyHoldsWhenThatIsMeant) {
  LoadedConfig loaded = parse_config("", "a.toml", {"parallel.tp=2"});
  resolve(loaded);
  CheckOptions options = {.memory_bytes = 128 << 20, .looks_at_files = false};
  EXPECT_TRUE(check_run(loaded, options).empty());
  options.is_verify = true;
  const std::vector<Problem> problems = check_run(loaded, options);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].rule, "memory-exceeds-machine");
  EXPECT_THAT(to_text(problems[0]),
              testing::ContainsRegex("verify needs .* MiB, .* for the layout "
                                     "and .* for the runs on one rank"));
  options.memory_bytes = int64_t{1} << 40;
  EXPECT_TRUE(check_run(loaded, options).empty());
}

TEST(Check, OneRankNeedsItsMemoryAlone) {
  LoadedConfig loaded = parse_config("", "a.toml", {});
  resolve(loaded);
  const std::vector<Problem> problems =
      check_run(loaded, {.memory_bytes = 1 << 20, .looks_at_files = false});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].message,
              testing::MatchesRegex("one rank needs [0-9.]+ MiB, and this "
                                    "machine has 1.0 MiB"));
}

// The page's example: what it says that verify prints.
TEST(Check, VerifyNeedsWhatThePageShows) {
  const std::string page = read_file(
      TRIAX_SOURCE_DIR "/docs/rules/memory-exceeds-machine.md", 1 << 20);
  const size_t begin = page.find("```toml\n") + 8;
  LoadedConfig loaded =
      parse_config(page.substr(begin, page.find("```", begin) - begin), "a");
  resolve(loaded);
  const CheckOptions options = {.memory_bytes = int64_t{47} << 29,
                                .is_verify = true,
                                .looks_at_files = false};
  const std::vector<Problem> problems = check_run(loaded, options);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(page, HasSubstr("    model: " + problems[0].message + "\n"));
}

TEST(Check, TheLimitIsNotOfVerify) {
  LoadedConfig loaded = parse_config("", "a.toml", {"memory.limit=1MiB"});
  resolve(loaded);
  CheckOptions options = {.looks_at_files = false};
  EXPECT_EQ(check_run(loaded, options).size(), 1u);
  options.is_verify = true;
  EXPECT_TRUE(check_run(loaded, options).empty());
}

TEST(Check, FindsEveryProblemAtOnceInTheOrderOfTheFile) {
  LoadedConfig loaded = parse_config(
      "[parallel]\ntp = 3\npp = 9\n[training]\nglobal_batch_size = 7\n"
      "microbatch_size = 2\nsteps = 0\n[optimizer]\nwarmup_steps = 200\n",
      "a.toml");
  resolve(loaded);
  std::vector<std::string> found;
  for (const Problem& problem : check_run(loaded, {.looks_at_files = false})) {
    found.push_back(std::to_string(problem.position.line) + " " + problem.rule);
  }
  EXPECT_THAT(found,
              testing::ElementsAre("2 heads-divide",
                                   "3 layers-fewer-than-stages",
                                   "3 few-microbatches",
                                   "5 batch-triangle",
                                   "7 out-of-range",
                                   "9 warmup-steps"));
}

TEST(Check, StopsAtAFileThatIsNoToml) {
  LoadedConfig loaded = parse_config("[", "a.toml");
  resolve(loaded);
  EXPECT_EQ(check_run(loaded).size(), 1u);
}

TEST(Check, AFieldThatTheLoaderRefusedIsNotJudgedAgain) {
  LoadedConfig loaded = parse_config("[data]\npath = 3", "a.toml");
  resolve(loaded);
  const std::vector<Problem> problems = check_run(loaded);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].rule, "wrong-type");
}

TEST(Check, TheTableHasTheSchedulesThatAreBuilt) {
  std::vector<std::string> choices;
  for (const std::string_view choice :
       find_field("parallel.schedule")->choices) {
    choices.emplace_back(choice);
  }
  EXPECT_THAT(choices, testing::UnorderedElementsAreArray(schedule_names()));
}

TEST(Check, ListsOfDivisors) {
  EXPECT_THAT(divisors(12), testing::ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(divisors(25), testing::ElementsAre(1, 5, 25));
  EXPECT_EQ(one_of({1}), "1");
  EXPECT_EQ(one_of({1, 2, 4}), "1, 2 or 4");
}

// The rules that look at files.
class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "check.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    write_file_atomically(path("text"), std::string(1000, 'a'));
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  std::string rules_of(std::vector<std::string> keys,
                       const CheckOptions& options = {}) const {
    LoadedConfig loaded = parse_config("", "a.toml", keys);
    resolve(loaded);
    std::string ids;
    for (const Problem& problem : check_run(loaded, options)) {
      ids += problem.rule + " " + problem.field + "\n";
    }
    return ids;
  }

  std::filesystem::path folder_;
};

TEST_F(Files, DataMustBeThereAndReadable) {
  const std::string text = "data.path=" + path("text");
  EXPECT_EQ(rules_of({text}), "");
  EXPECT_EQ(rules_of({}), "data-path data.path\n");
  EXPECT_EQ(rules_of({"data.path=" + path("none")}), "data-path data.path\n");
  EXPECT_EQ(rules_of({"data.path=" + folder_.string()}),
            "data-path data.path\n");
  EXPECT_EQ(rules_of({text, "model.vocab_size=255"}),
            "vocab-too-small model.vocab_size\n");
}

// Data that is not there yet, a rate that is refused: the bytes are known.
TEST_F(Files, ThatAreMissingHideNoOtherFinding) {
  const CheckOptions small = {.memory_bytes = 1 << 20};
  const std::string limit = "memory.limit=1MiB";
  EXPECT_EQ(rules_of({}, small),
            "data-path data.path\nmemory-exceeds-machine model\n");
  EXPECT_EQ(rules_of({"data.path=" + path("none"), limit}),
            "data-path data.path\nmemory-exceeds-limit memory.limit\n");
  EXPECT_THAT(rules_of({"data.path=" + path("none"), "optimizer.lr=-1", limit}),
              testing::HasSubstr("memory-exceeds-limit"));
  EXPECT_THAT(rules_of({"run.dir=" + folder_.string(), limit}),
              testing::HasSubstr("memory-exceeds-limit"));
  // What the bytes follow from is refused.
  EXPECT_EQ(
      rules_of(
          {"data.path=" + path("text"), "training.microbatch_size=-1", limit}),
      "out-of-range training.microbatch_size\n");
}

TEST_F(Files, MegatronsFilesComeInPairsAndHaveTheirOwnVocabulary) {
  const std::string prefix = "data.path=" + path("tokens");
  write_file_atomically(path("tokens.idx"), "x");
  EXPECT_EQ(rules_of({prefix}), "data-path data.path\n");
  write_file_atomically(path("tokens.bin"), "x");
  EXPECT_EQ(rules_of({prefix}), "data-path data.path\n");  // no index
  const std::string golden =
      "data.path=" + std::string(TRIAX_SOURCE_DIR) + "/tests/data/golden";
  const std::string four = "data.sequence_length=4";
  EXPECT_EQ(rules_of({golden, four, "model.vocab_size=100"}), "");
  EXPECT_EQ(rules_of({golden, four, "model.vocab_size=2"}),
            "vocab-too-small model.vocab_size\n");
  // Tokens 1 to 5, of which the last two are held out.
  EXPECT_EQ(rules_of({golden,
                      "data.sequence_length=1",
                      "data.validation=0.4",
                      "training.validate_every=1",
                      "model.vocab_size=5"}),
            "vocab-too-small model.vocab_size\n");
  EXPECT_EQ(rules_of({golden, four, "training.global_batch_size=2"}),
            "data-too-short data.path\n");
}

TEST_F(Files, DataHoldsAtLeastOneSample) {
  const std::string text = "data.path=" + path("text");
  const std::string wide = "model.max_position_embeddings=5000";
  EXPECT_EQ(rules_of({text, wide, "data.sequence_length=999"}), "");
  EXPECT_EQ(rules_of({text, wide, "data.sequence_length=1000"}),
            "data-too-short data.path\n");
  EXPECT_EQ(rules_of({text,
                      "data.validation=0.1",
                      "training.validate_every=5",
                      "data.sequence_length=100"}),
            "data-too-short data.validation\n");
  EXPECT_EQ(rules_of({text,
                      "data.validation=0.1",
                      "training.validate_every=5",
                      "data.sequence_length=99"}),
            "");
}

TEST_F(Files, ValidationNeedsData) {
  const std::string text = "data.path=" + path("text");
  EXPECT_EQ(rules_of({text, "training.validate_every=5"}),
            "validation-missing training.validate_every\n");
  EXPECT_EQ(rules_of({text,
                      "training.validate_every=5",
                      "data.validation=" + path("none")}),
            "data-path data.validation\n");
}

TEST_F(Files, ARunsFolderIsNeverReused) {
  const std::string text = "data.path=" + path("text");
  EXPECT_EQ(rules_of({text, "run.dir=" + folder_.string()}),
            "run-dir-exists run.dir\n");
  EXPECT_EQ(rules_of({text, "run.dir=" + path("new")}), "");
  std::filesystem::create_symlink(path("nowhere"), path("link"));
  EXPECT_EQ(rules_of({text, "run.dir=" + path("link")}),
            "run-dir-exists run.dir\n");
}

// A rule that no test names is a rule that may never speak.
TEST(Check, EveryRuleIsNamedByATest) {
  std::string sources;
  // Megatron-LM's cases say themselves what must be found.
  for (const char* folder : {"check",
                             "config",
                             "cli",
                             "foreign",
                             "cases/megatron",
                             "cases/megatron_scripts"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             std::string(TRIAX_SOURCE_DIR) + "/tests/" + folder)) {
      if (entry.path().extension() == ".cpp" ||
          entry.path().extension() == ".sh" ||
          entry.path().filename() == "cases.txt") {
        sources += read_file(entry.path().string(), 1 << 20);
      }
    }
  }
  for (const Rule& rule : rules()) {
    EXPECT_NE(sources.find(rule.id), std::string::npos) << rule.id;
  }
}

TEST(LossScaleOrder, IsCheckedInFp16) {
  const Case input{{"training.precision=fp16",
                    "training.initial_loss_scale=2",
                    "training.min_loss_scale=4"},
                   {},
                   "",
                   "",
                   {}};
  std::string all;
  for (const Problem& problem :
       check_run(load(input), {.looks_at_files = false})) {
    all += to_text(problem) + "\n";
  }
  EXPECT_THAT(all,
              HasSubstr("error[loss-scale-order]: training.min_loss_scale: "
                        "min_loss_scale 4 is above initial_loss_scale 2"));
  EXPECT_THAT(all, HasSubstr("use at most 2"));
}

TEST(LossScalePower, IsAskedInFp16) {
  const auto problems = [](const std::vector<std::string>& overrides) {
    std::string all;
    for (const Problem& problem : check_run(load({overrides, {}, "", "", {}}),
                                            {.looks_at_files = false})) {
      all += to_text(problem) + "\n";
    }
    return all;
  };
  const std::string fp16 = "training.precision=fp16";
  EXPECT_THAT(problems({fp16, "training.initial_loss_scale=1000"}),
              AllOf(HasSubstr("error[loss-scale-power]: "
                              "training.initial_loss_scale: 1000 is no power "
                              "of two"),
                    HasSubstr("use 512 or 1024")));
  EXPECT_THAT(problems({fp16, "training.min_loss_scale=0.3"}),
              AllOf(HasSubstr("training.min_loss_scale: 0.3 is no power"),
                    HasSubstr("use 0.25 or 0.5")));
  for (const char* right : {"training.initial_loss_scale=4294967296",
                            "training.initial_loss_scale=1",
                            "training.min_loss_scale=0.0625"}) {
    EXPECT_THAT(problems({fp16, right}), Not(HasSubstr("loss-scale")));
  }
  EXPECT_THAT(problems({"training.initial_loss_scale=1000"}),
              Not(HasSubstr("loss-scale-power")));
}

}  // namespace
}  // namespace triax
