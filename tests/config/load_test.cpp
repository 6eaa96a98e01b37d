// SPDX-License-Identifier: Apache-2.0
#include "triax/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

using testing::HasSubstr;

std::string all_text(const LoadedConfig& loaded) {
  std::string text;
  for (const Problem& problem : loaded.problems) {
    text += to_text(problem) + "\n";
  }
  return text;
}

// What a line of a run file is answered with: a place, a rule, words.
struct Bad {
  const char* text;
  const char* answer;  // the beginning of the problem's line
  const char* words;   // somewhere in it
};

class BadInput : public testing::TestWithParam<Bad> {};

TEST_P(BadInput, IsAnsweredWithPlaceRuleAndWayOut) {
  const LoadedConfig loaded = parse_config(GetParam().text, "a.toml");
  ASSERT_EQ(loaded.problems.size(), 1u) << all_text(loaded);
  const std::string line = to_text(loaded.problems[0]);
  EXPECT_THAT(line, testing::StartsWith(GetParam().answer));
  EXPECT_THAT(line, HasSubstr(GetParam().words));
  EXPECT_TRUE(is_rule(loaded.problems[0].rule));
}

INSTANTIATE_TEST_SUITE_P(
    Keys,
    BadInput,
    testing::Values(
        Bad{"[training]\ngradient_clipp1ng = 1.0",
            "a.toml:2:1: error[unknown-key]: training.gradient_clipp1ng: ",
            "did you mean training.gradient_clipping?"},
        Bad{"[training]\nsteps = 3\n  lr = 1e-3",
            "a.toml:3:3: error[unknown-key]: training.lr: ",
            "lr belongs in [optimizer]"},
        Bad{"steps = 3",
            "a.toml:1:1: error[unknown-key]: steps: ",
            "steps belongs in [training]"},
        Bad{"[paralel]\ntp = 2\npp = 2",
            "a.toml:1:2: error[unknown-key]: paralel: ",
            "did you mean [parallel]?"},
        Bad{"[training]\nmicro_batch_size = 1",
            "a.toml:2:1: error[unknown-key]: training.micro_batch_size: ",
            "did you mean training.microbatch_size?"},
        Bad{"[training]\nhiden_size = 1",
            "a.toml:2:1: error[unknown-key]: training.hiden_size: ",
            "did you mean model.hidden_size?"},
        Bad{"[training]\nxyzzy = 1",
            "a.toml:2:1: error[unknown-key]: training.xyzzy: ",
            "triax train --help"},
        Bad{"[parallel]\nzero_stage = 1",
            "a.toml:2:1: error[unknown-key]: parallel.zero_stage: ",
            "did you mean parallel.zero?"},
        Bad{"[zero_optimization]\nstage = 1",
            "a.toml:1:2: error[unknown-key]: zero_optimization: ",
            "did you mean parallel.zero?"},
        Bad{"[parallel]\nep = 2",
            "a.toml:2:1: error[unknown-key]: parallel.ep: ",
            "experts is not offered"},
        Bad{"[model]\ntype = \"gpt2\"",
            "a.toml:2:1: error[unknown-key]: model.type: ",
            "did you mean model.family?"},
        Bad{"[model]\ndropout = 0.1",
            "a.toml:2:1: error[unknown-key]: model.dropout: ",
            "did you mean model.resid_pdrop, model.embd_pdrop or "
            "model.attn_pdrop?"},
        Bad{"[comm.emulate]\ncp = { latency = \"2ms\" }",
            "a.toml:2:1: error[unknown-key]: comm.emulate.cp: ",
            ""},
        Bad{"[comm.emulate]\ndp = { latencyy = \"2ms\" }",
            "a.toml:2:8: error[unknown-key]: comm.emulate.dp.latencyy: ",
            "did you mean comm.emulate.dp.latency?"},
        Bad{"\"parallel.tp\" = 2",
            "a.toml:1:1: error[unknown-key]: \"parallel.tp\": ",
            "did you mean [parallel]?"},
        Bad{"model = 3",
            "a.toml:1:1: error[wrong-type]: model: ",
            "write [model]"},
        Bad{"[[model]]\nhidden_size = 4",
            "a.toml:1:3: error[wrong-type]: model: a list",
            "write [model]"}));

INSTANTIATE_TEST_SUITE_P(
    Values,
    BadInput,
    testing::Values(
        Bad{"[parallel]\ntp = \"2\"",
            "a.toml:2:6: error[wrong-type]: parallel.tp: a text",
            "whole number"},
        Bad{"[parallel]\ntp = 2.0",
            "a.toml:2:6: error[wrong-type]: parallel.tp: a number with a ",
            ""},
        Bad{"[parallel]\ntp = true",
            "a.toml:2:6: error[wrong-type]: parallel.tp: true or false",
            ""},
        Bad{"[parallel]\ntp = 1979-05-27",
            "a.toml:2:6: error[wrong-type]: parallel.tp: a date",
            ""},
        Bad{"[parallel]\ntp = 0",
            "a.toml:2:6: error[out-of-range]: parallel.tp: 0 is not at least 1",
            ""},
        Bad{"[parallel]\ntp = 9223372036854775807",
            "a.toml:2:6: error[out-of-range]: parallel.tp: ",
            "at most 65536"},
        Bad{"[optimizer]\nlr = nan",
            "a.toml:2:6: error[out-of-range]: optimizer.lr: nan",
            ""},
        Bad{"[optimizer]\nlr = inf",
            "a.toml:2:6: error[out-of-range]: optimizer.lr: inf",
            ""},
        Bad{"[optimizer]\nlr = -1",
            "a.toml:2:6: error[out-of-range]: optimizer.lr: -1 is not at least",
            ""},
        Bad{"[model]\nresid_pdrop = 1.0",
            "a.toml:2:15: error[out-of-range]: model.resid_pdrop: 1 is not ",
            "below 1"},
        Bad{"[optimizer]\nbetas = [0.9, 1.0]",
            "a.toml:2:9: error[out-of-range]: optimizer.betas: 1 is not below",
            ""},
        Bad{"[optimizer]\nbetas = [0.9]",
            "a.toml:2:9: error[wrong-type]: optimizer.betas: 1 values",
            "2 belong"},
        Bad{"[optimizer]\nfreeze = [3]",
            "a.toml:2:10: error[wrong-type]: optimizer.freeze: a whole number",
            "list of texts"},
        Bad{"[model]\nfamily = \"lama\"",
            "a.toml:2:10: error[unknown-value]: model.family: \"lama\"",
            "did you mean llama?"},
        Bad{"[data]\nvalidation = 1.0",
            "a.toml:2:14: error[wrong-type]: data.validation: 1.0 is no share",
            ""},
        Bad{"[data]\nvalidation = []",
            "a.toml:2:14: error[wrong-type]: data.validation: a list",
            ""},
        Bad{"[parallel]\nstages = \"even\"",
            "a.toml:2:10: error[wrong-type]: parallel.stages: \"even\"",
            "\"auto\""},
        Bad{"[parallel]\nstages = [2, 0]",
            "a.toml:2:10: error[wrong-type]: parallel.stages: ",
            "from 1"},
        Bad{"[comm]\ndeadline = \"soon\"",
            "a.toml:2:12: error[wrong-type]: comm.deadline: ",
            "soon"},
        Bad{"[comm]\ndeadline = \"0s\"",
            "a.toml:2:12: error[out-of-range]: comm.deadline: 0 is not above 0",
            ""},
        Bad{"[comm.emulate.dp]\nbandwidth = \"1 GB\"",
            "a.toml:2:13: error[wrong-type]: comm.emulate.dp.bandwidth: ",
            "1 GB"},
        Bad{"[data]\npath = \"a\\u0000b\"",
            "a.toml:2:8: error[wrong-type]: data.path: ",
            "NUL"},
        Bad{"[[optimizer.group]]\nlr = 1e-3",
            "a.toml:1:1: error[wrong-type]: optimizer.group: ",
            "needs a pattern"},
        Bad{"[[optimizer.group]]\npattern = \"*\"\nlrr = 1e-3",
            "a.toml:1:1: error[wrong-type]: optimizer.group: ",
            "\"lrr\""},
        Bad{"[[optimizer.group]]\npattern = \"*\"",
            "a.toml:1:1: error[wrong-type]: optimizer.group: ",
            "neither"}));

INSTANTIATE_TEST_SUITE_P(
    NotBuilt,
    BadInput,
    testing::Values(
        Bad{"[parallel]\nzero = 4",
            "a.toml:2:8: error[out-of-range]: parallel.zero: 4",
            "at most 3"},
        Bad{"[parallel]\nchunks = 2",
            "a.toml:2:10: error[not-built]: parallel.chunks: ",
            ""},
        Bad{"[parallel]\nschedule = \"interleaved\"",
            "a.toml:2:12: error[not-built]: parallel.schedule: ",
            "use gpipe, 1f1b"},
        Bad{"[parallel]\nschedule = \"zero_bubble\"",
            "a.toml:2:12: error[not-built]: parallel.schedule: ",
            ""},
        Bad{"[parallel]\nschedule = \"pipedream\"",
            "a.toml:2:12: error[not-built]: parallel.schedule: ",
            ""},
        Bad{"[parallel]\ncp = 2",
            "a.toml:2:6: error[not-built]: parallel.cp: ",
            ""},
        Bad{"[data]\ntokenizer = \"gpt2\"",
            "a.toml:2:13: error[not-built]: data.tokenizer: \"gpt2\"",
            "use \"bytes\""},
        Bad{"[memory]\noffload_states = [\"optimiser\"]",
            "a.toml:2:18: error[unknown-value]: memory.offload_states: "
            "\"optimiser\" is not known",
            "did you mean optimizer?"},
        Bad{"[memory]\nlimit = 0",
            "a.toml:2:9: error[out-of-range]: memory.limit: ",
            "at least 1"},
        Bad{"[checkpoint]\nevery = 100",
            "a.toml:2:9: error[not-built]: checkpoint.every: ",
            ""},
        Bad{"[fault]\nrestarts = 1",
            "a.toml:2:12: error[not-built]: fault.restarts: ",
            ""},
        Bad{"[run]\ndevice = \"cuda\"",
            "a.toml:2:10: error[not-built]: run.device: ",
            "use cpu"},
        Bad{"[profile]\nsteps = 3",
            "a.toml:2:9: error[not-built]: profile.steps: ",
            ""},
        Bad{"profile = true", "a.toml:1:11: error[not-built]: profile: ", ""}));

INSTANTIATE_TEST_SUITE_P(
    NotOffered,
    BadInput,
    testing::Values(Bad{"[model]\nnum_experts = 8",
                        "a.toml:2:15: error[no-experts]: model.num_experts: ",
                        "dense"},
                    Bad{"[model]\nmoe_top_k = 2",
                        "a.toml:2:13: error[no-experts]: model.moe_top_k: ",
                        ""},
                    Bad{"[model]\nlora_rank = 8",
                        "a.toml:2:13: error[no-adapters]: model.lora_rank: ",
                        "freeze"},
                    Bad{"[lora]\nrank = 8",
                        "a.toml:2:8: error[no-adapters]: lora.rank: ",
                        ""},
                    Bad{"[training]\nrampup_batch_size = [1, 2, 3]",
                        "a.toml:2:21: error[no-batch-ramp]: ",
                        ""},
                    Bad{"[comm]\nquantize_gradients = true",
                        "a.toml:2:22: error[no-quantised-collectives]: ",
                        ""}));

const std::string kDeepList =
    "a = " + std::string(100'000, '[') + std::string(100'000, ']');
const std::string kDeepTable = [] {
  std::string text = "[a";
  for (int i = 0; i < 100'000; ++i) {
    text += ".a";
  }
  return text + "]";
}();
const std::string kDeepInline = [] {
  std::string text = "a = ";
  for (int i = 0; i < 50'000; ++i) {
    text += "{a=";
  }
  return text;
}();

INSTANTIATE_TEST_SUITE_P(
    Syntax,
    BadInput,
    testing::Values(
        Bad{"[parallel]\ntp = ", "a.toml:2:", ""},
        Bad{"[parallel]\ntp = 2,", "a.toml:2:7: error[syntax]: ", ""},
        Bad{"[parallel]\ntp = \xcf\x98",
            "a.toml:2:6: error[syntax]: ",
            "ASCII"},
        Bad{"\xc3\xa9 = 2", "a.toml:1:1: error[syntax]: ", "ASCII"},
        Bad{"[parallel]\ntp = 2\ntp = 4", "a.toml:3:", ""},
        Bad{"[parallel]\ntp = 99999999999999999999", "a.toml:2:", ""},
        Bad{"[data]\npath = \"\xff\"", "a.toml:2:", ""},
        Bad{"\xfe\xff", "a.toml:1:", ""},
        Bad{"[data", "a.toml:1:", ""},
        Bad{kDeepList.c_str(), "a.toml:1:70: error[syntax]: ", "64 levels"},
        Bad{kDeepTable.c_str(), "a.toml:1:", "64 levels"},
        Bad{kDeepInline.c_str(), "a.toml:1:", "64 levels"}));

TEST(Load, RefusesNulBytes) {
  const LoadedConfig loaded =
      parse_config(std::string("[data]\n\0path = 1", 16), "a.toml");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].rule, "syntax");
  EXPECT_EQ(loaded.problems[0].position.line, 2);
}

TEST(Load, BracketsInTextsAndCommentsAreNoNesting) {
  const std::string brackets(100, '[');
  const LoadedConfig loaded =
      parse_config("# " + brackets + "\n[data]\npath = \"" + brackets +
                       "\\\"[\"\n"
                       "validation = '''" +
                       brackets + "\n" + brackets + "'''\n",
                   "a.toml");
  EXPECT_EQ(all_text(loaded), "");
}

TEST(Load, LettersBeyondAsciiStandInTextsAndComments) {
  EXPECT_THAT(parse_config("\xef\xbb\xbf# \xc3\xa9\n[run]\n"
                           "dir = \"\xc3\xa9\" # \xcf\x98\n",
                           "a.toml")
                  .problems,
              testing::IsEmpty());
}

TEST(Load, ListsEveryProblemInTheOrderOfTheFile) {
  const LoadedConfig loaded = parse_config(
      "[parallel]\ntp = 0\n[model]\nhiden_size = 1\n[training]\nsteps = 1.5\n",
      "a.toml",
      {"run.dirr=x"});
  ASSERT_EQ(loaded.problems.size(), 4u) << all_text(loaded);
  EXPECT_EQ(loaded.problems[0].field, "parallel.tp");
  EXPECT_EQ(loaded.problems[1].field, "model.hiden_size");
  EXPECT_EQ(loaded.problems[2].field, "training.steps");
  EXPECT_EQ(loaded.problems[3].position.file, "command line");
}

TEST(Load, OneProblemIsOneLineWhateverItsBytes) {
  const LoadedConfig loaded =
      parse_config("\"a\\nb\\u001b[31m\" = 1", "a.toml");
  ASSERT_EQ(loaded.problems.size(), 1u);
  const std::string line = to_text(loaded.problems[0]);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_THAT(line, HasSubstr("a\\x0ab\\x1b"));
}

TEST(Load, ReadsUnitsAndTablesOfLinks) {
  const LoadedConfig loaded = parse_config(
      "[comm]\ndeadline = \"1.5m\"\n"
      "[comm.emulate]\n"
      "dp = { latency = \"2ms\", bandwidth = \"1GB/s\", jitter = 0.1 }\n"
      "[parallel]\nbucket_bytes = \"2MiB\"\n",
      "a.toml");
  EXPECT_EQ(all_text(loaded), "");
  EXPECT_EQ(loaded.config.comm.deadline_seconds, 90.0);
  const EmulatedLink expected{
      .latency_seconds = 2e-3, .bytes_per_second = 1e9, .jitter = 0.1};
  EXPECT_EQ(loaded.config.comm.emulate.at("dp"), expected);
  EXPECT_EQ(loaded.config.comm.emulate.size(), 1u);
  EXPECT_EQ(loaded.config.parallel.bucket_bytes, 2 << 20);
  EXPECT_EQ(loaded.position_of("comm.emulate.dp.latency").line, 4);
}

TEST(Load, ValidationIsAShareOrAPath) {
  EXPECT_EQ(
      parse_config("[data]\nvalidation = 0.25", "a").config.data.validation,
      0.25);
  const DataConfig data =
      parse_config("[data]\nvalidation = \"v.txt\"", "a").config.data;
  EXPECT_EQ(data.validation_path, "v.txt");
  EXPECT_EQ(data.validation, 0.0);
}

TEST(Override, WinsOverTheFileAndTakesTomlOrABareWord) {
  const LoadedConfig loaded =
      parse_config("[parallel]\ntp = 2\n[data]\nvalidation = \"v.txt\"",
                   "a.toml",
                   {"parallel.tp=4",
                    "parallel.schedule=gpipe",
                    "data.path=some dir/kjv.txt",
                    "run.dir=2024",
                    "optimizer.betas=[0.8, 0.9]",
                    "optimizer.group=[{pattern = \"*.bias\", lr = 1}]",
                    "comm.emulate.dp={latency = \"1ms\"}",
                    "comm.deadline=5s",
                    "data.validation=0.5",
                    "parallel.tp=8"});
  EXPECT_EQ(all_text(loaded), "");
  EXPECT_EQ(loaded.config.parallel.tp, 8);
  EXPECT_EQ(loaded.config.parallel.schedule, "gpipe");
  EXPECT_EQ(loaded.config.data.path, "some dir/kjv.txt");
  EXPECT_EQ(loaded.config.run.dir, "2024");
  EXPECT_THAT(loaded.config.optimizer.betas, testing::ElementsAre(0.8, 0.9));
  ASSERT_EQ(loaded.config.optimizer.group.size(), 1u);
  EXPECT_EQ(loaded.config.optimizer.group[0].lr, 1.0);
  EXPECT_EQ(loaded.config.comm.emulate.at("dp").latency_seconds, 1e-3);
  EXPECT_EQ(loaded.config.comm.deadline_seconds, 5.0);
  EXPECT_EQ(loaded.config.data.validation, 0.5);
  EXPECT_EQ(loaded.config.data.validation_path, "");
  EXPECT_EQ(loaded.position_of("parallel.tp").file, "command line");
}

TEST(Override, ALineFeedStartsNoSecondKey) {
  const LoadedConfig loaded =
      parse_config("", "a.toml", {"run.dir=1\nparallel.tp = 2"});
  EXPECT_EQ(all_text(loaded), "");
  EXPECT_EQ(loaded.config.run.dir, "1\nparallel.tp = 2");
}

struct BadWord {
  const char* word;
  const char* answer;
};

class BadOverride : public testing::TestWithParam<BadWord> {};

TEST_P(BadOverride, IsAnswered) {
  const LoadedConfig loaded = parse_config("", "a.toml", {GetParam().word});
  ASSERT_EQ(loaded.problems.size(), 1u) << all_text(loaded);
  EXPECT_THAT(to_text(loaded.problems[0]),
              testing::StartsWith("command line: error" +
                                  std::string(GetParam().answer)));
}

INSTANTIATE_TEST_SUITE_P(
    Words,
    BadOverride,
    testing::Values(
        BadWord{"parallel.tp", "[syntax]: \"parallel.tp\" is no override"},
        BadWord{"tp=2", "[syntax]: \"tp=2\" is no override"},
        BadWord{"=2", "[syntax]"},
        BadWord{"", "[syntax]"},
        BadWord{"parallel.tp=", "[syntax]"},
        BadWord{"parallel.tp=two", "[wrong-type]: parallel.tp: a text"},
        BadWord{"parallel.tpp=2", "[unknown-key]: parallel.tpp: "},
        BadWord{"paralel.tp=2",
                "[unknown-key]: paralel.tp: no such section; "
                "did you mean [parallel]?"},
        BadWord{"optimizer.betas=[0.9", "[syntax]"},
        BadWord{"run.dir=\"x", "[syntax]"},
        BadWord{"run.dir=\xff", "[syntax]"}));

TEST(Load, AnyTextIsAnswered) {
  static const std::vector<std::string> tokens = {"[",
                                                  "]",
                                                  "{",
                                                  "}",
                                                  "=",
                                                  ".",
                                                  ",",
                                                  "\"",
                                                  "'",
                                                  "\"\"\"",
                                                  "'''",
                                                  "\\",
                                                  "#",
                                                  "\n",
                                                  " ",
                                                  "tp",
                                                  "parallel",
                                                  "model",
                                                  "hf",
                                                  "comm",
                                                  "emulate",
                                                  "dp",
                                                  "1",
                                                  "-2",
                                                  "1e9",
                                                  "inf",
                                                  "true",
                                                  "1979-05-27",
                                                  "\xff",
                                                  std::string(1, '\0'),
                                                  "[parallel]\n",
                                                  "[[optimizer.group]]\n",
                                                  "stages = ",
                                                  "validation = "};
  EXPECT_TRUE(rc::check([] {
    std::string text;
    for (const std::string& token :
         *rc::gen::container<std::vector<std::string>>(
             rc::gen::elementOf(tokens))) {
      text += token;
    }
    LoadedConfig loaded = parse_config(text, "a.toml", {"parallel.tp=" + text});
    resolve(loaded, 4);
    for (const Problem& problem : loaded.problems) {
      RC_ASSERT(is_rule(problem.rule));
      RC_ASSERT(to_text(problem).find('\n') == std::string::npos);
    }
    to_json(loaded.problems);
  }));
}

class LoadFile : public testing::Test {
 protected:
  LoadFile() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "load.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~LoadFile() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  static std::string rule_of(const std::string& path) {
    const LoadedConfig loaded = load_config(path);
    return loaded.problems.size() == 1 ? loaded.problems[0].rule
                                       : all_text(loaded);
  }

  std::filesystem::path folder_;
};

TEST_F(LoadFile, WhatIsNoFileIsOneSentence) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  write_file_atomically(path("large"), std::string(2 << 20, '#'));
  write_file_atomically(path("empty"), "");
  EXPECT_EQ(rule_of(path("pipe")), "unreadable");
  EXPECT_EQ(rule_of(path("large")), "unreadable");
  EXPECT_EQ(rule_of(path("none")), "unreadable");
  EXPECT_EQ(rule_of(folder_.string()), "unreadable");
  EXPECT_EQ(rule_of(path("empty")), "");
}

TEST_F(LoadFile, LoadRunResolvesAndThrowsTheFirstProblem) {
  write_file_atomically(path("a"), "[parallel]\ntp = 2\n");
  EXPECT_EQ(load_run(path("a")).parallel.dp, 1);
  write_file_atomically(path("b"), "[parallel]\ntp = 0\n");
  EXPECT_THROW(load_run(path("b")), Error);
}

TEST(Resolve, FillsWhatWasLeftOutAndSaysFromWhat) {
  LoadedConfig loaded = parse_config(
      "[model]\nhidden_size = 96\nnum_attention_heads = 6\n"
      "[parallel]\ntp = 2\npp = 2\n[training]\nmicrobatch_size = 3\n",
      "a.toml");
  resolve(loaded, 8);
  const RunConfig& config = loaded.config;
  EXPECT_EQ(config.model.num_key_value_heads, 6);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.intermediate_size, 384);
  EXPECT_EQ(config.model.norm_eps, 1e-6);
  EXPECT_FALSE(config.model.tie_word_embeddings);
  EXPECT_EQ(config.parallel.dp, 2);
  EXPECT_EQ(config.training.global_batch_size, 6);
  EXPECT_THAT(loaded.derived.at("parallel.dp"), HasSubstr("8 ranks"));
  const RunConfig before = config;
  resolve(loaded);
  EXPECT_EQ(loaded.config, before);
}

TEST(Resolve, Gpt2HasItsOwnDefaults) {
  LoadedConfig loaded = parse_config("[model]\nfamily = \"gpt2\"", "a");
  resolve(loaded);
  EXPECT_TRUE(loaded.config.model.tie_word_embeddings);
  EXPECT_EQ(loaded.config.model.norm_eps, 1e-5);
  loaded = parse_config(
      "[model]\nfamily = \"gpt2\"\ntie_word_embeddings = false", "a");
  resolve(loaded);
  EXPECT_FALSE(loaded.config.model.tie_word_embeddings);
}

TEST(Resolve, TheBatchFollowsFromTheAccumulation) {
  LoadedConfig loaded = parse_config(
      "[parallel]\ndp = 2\n[training]\nmicrobatch_size = 4\n"
      "gradient_accumulation_steps = 3",
      "a");
  resolve(loaded);
  EXPECT_EQ(loaded.config.training.global_batch_size, 24);
}

// toml++ 3.3 aborts on each of these.
TEST(Load, ATableWithoutANameIsASyntaxError) {
  for (const std::string text : {"[.",
                                 "[=",
                                 "[,]",
                                 "[[,",
                                 "[\\]",
                                 "[\n]",
                                 "[model]\ntp = 1\n \t[ .a]",
                                 "[ #x"}) {
    const LoadedConfig loaded = parse_config(text, "run.toml");
    ASSERT_FALSE(loaded.problems.empty()) << text;
    EXPECT_EQ(loaded.problems[0].rule, "syntax") << text;
  }
  const LoadedConfig loaded =
      parse_config("[parallel]\nstages = [\n [+1]\n]", "run.toml");
  ASSERT_FALSE(loaded.problems.empty());
  EXPECT_NE(loaded.problems[0].rule, "syntax");
}

// "LINE: FROM -> TO" of each change that is safe.
std::string edits_of(const std::string& text) {
  std::string all;
  for (const Problem& problem : parse_config(text, "a.toml").problems) {
    if (problem.edit) {
      all += std::to_string(problem.edit->position.line) + ": " +
             problem.edit->from + " -> " + problem.edit->to + "\n";
    }
  }
  return all;
}

TEST(SafeEdits, RenameWhatIsSurelyMeant) {
  EXPECT_EQ(edits_of("[training]\nstpes = 3\n"), "2: stpes -> steps\n");
  EXPECT_EQ(edits_of("[model]\nnum_hidden_layer = 2\n"),
            "2: num_hidden_layer -> num_hidden_layers\n");
  EXPECT_EQ(edits_of("[trainning]\nsteps = 3\nseed = 1\n"),
            "1: trainning -> training\n");
}

TEST(SafeEdits, AreNoneWhereAnythingElseCouldBeMeant) {
  // Set already, above or below.
  EXPECT_EQ(edits_of("[training]\nstpes = 3\nsteps = 4\n"), "");
  EXPECT_EQ(edits_of("[training]\nsteps = 4\nstpes = 3\n"), "");
  // The value does not fit.
  EXPECT_EQ(edits_of("[training]\nstpes = \"many\"\n"), "");
  EXPECT_EQ(edits_of("[training]\nstpes = -1\n"), "");
  // Another section, a digit, as near to two keys.
  EXPECT_EQ(edits_of("[training]\nlr = 1e-3\n"), "");
  EXPECT_EQ(edits_of("[training]\ngradient_clipp1ng = 1.0\n"), "");
  EXPECT_EQ(edits_of("[parallel]\nxp = 1\n"), "");
  // The section is there already, or a key of it would be unknown.
  EXPECT_EQ(edits_of("[trainning]\nsteps = 3\n[training]\nseed = 1\n"), "");
  EXPECT_EQ(edits_of("[trainning]\nsteps = 3\nnonsense = 1\n"), "");
  // Not of the file.
  EXPECT_FALSE(parse_config("", "a.toml", {"training.stpes=3"})
                   .problems.at(0)
                   .edit.has_value());
}

}  // namespace
}  // namespace triax
