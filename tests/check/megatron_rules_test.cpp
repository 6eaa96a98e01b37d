// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/case_files.h"
#include "tests/check/megatron_cases.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

// tests/cases/megatron/base.sh, which is good, with some lines changed.
ForeignReport changed(const std::string& changes,
                      const ForeignContext& context = {}) {
  const std::string base =
      case_text(TRIAX_SOURCE_DIR "/tests/cases/megatron/base.sh");
  const auto cases = read_megatron_cases(base, "[run.sh]\n" + changes);
  return check_foreign(read_megatron(cases.at(0).script, "run.sh"), context);
}

// "SEVERITY RULE FIELD EFFECT" of each problem.
std::string short_texts(const ForeignReport& report) {
  std::string all;
  for (const Problem& problem : report.problems) {
    all += (all.empty() ? "" : ", ") +
           std::string(severity_name(problem.severity)) + " " + problem.rule +
           " " + problem.field + " " + std::string(effect_name(problem.effect));
  }
  return all;
}

TEST(MegatronRanges, SayWhoStopsAtANumber) {
  const auto said = [](const std::string& changes) {
    return short_texts(changed(changes));
  };
  EXPECT_EQ(said("--attention-dropout 1.5"),
            "error out-of-range attention-dropout fails later");
  EXPECT_EQ(said("--hidden-dropout -0.1"),
            "error out-of-range hidden-dropout fails later");
  EXPECT_EQ(said("--hidden-dropout 1.0"), "");
  EXPECT_EQ(said("--adam-beta1 1.0"),
            "error out-of-range adam-beta1 fails later");
  EXPECT_EQ(said("--adam-beta2 0.999"), "");
  EXPECT_EQ(said("--adam-beta2 1.01\n--optimizer sgd"), "");
  EXPECT_EQ(said("--adam-eps -1"), "error out-of-range adam-eps fails later");
  EXPECT_EQ(said("--sgd-momentum -1\n--optimizer sgd"),
            "error out-of-range sgd-momentum fails later");
  EXPECT_EQ(said("--lr -1"), "error out-of-range lr refused");
  EXPECT_EQ(said("--lr nan"), "error out-of-range lr refused");
  EXPECT_EQ(said("--lr-warmup-init -1"),
            "warning out-of-range lr-warmup-init silently different");
  EXPECT_EQ(said("--init-method-std -0.02"),
            "error out-of-range init-method-std fails later");
  EXPECT_EQ(said("--clip-grad -1"),
            "note clipping-off clip-grad silently different");
  EXPECT_EQ(said("--clip-grad 0.0"), "");
  const std::string fp16 = "without --bf16\n--fp16\n";
  EXPECT_EQ(said(fp16 + "--loss-scale -1"),
            "error out-of-range loss-scale fails later");
  EXPECT_EQ(said(fp16 + "--min-loss-scale 0"),
            "error out-of-range min-loss-scale fails later");
  EXPECT_EQ(said(fp16 + "--initial-loss-scale 0.5"),
            "error out-of-range initial-loss-scale fails later");
  EXPECT_EQ(said(fp16 + "--hysteresis 0"),
            "error out-of-range hysteresis fails later");
  EXPECT_EQ(said("--min-loss-scale 0"), "");
}

TEST(MegatronShapes, QueryGroupsSplitTheHeads) {
  const std::string groups = "--group-query-attention\n--num-query-groups ";
  EXPECT_EQ(short_texts(changed(groups + "8")), "");
  EXPECT_EQ(short_texts(changed(groups + "12")),
            "error kv-heads-divide-heads num-query-groups fails later");
  // One group on two tp ranks is held twice.
  EXPECT_EQ(short_texts(changed(groups + "1")), "");
}

TEST(MegatronShapes, AVocabularyThatNobodyPadsSplits) {
  EXPECT_EQ(short_texts(changed("--vocab-size 32001")), "");
  EXPECT_EQ(short_texts(changed("--vocab-size 32001\n--no-pad-vocab-size")),
            "error heads-divide vocab-size fails later");
  EXPECT_EQ(short_texts(changed("--vocab-size 32002\n--no-pad-vocab-size")),
            "");
}

TEST(MegatronWorld, OfAScriptsOwnVariableIsNotTheUsers) {
  const auto with_nodes = [](const std::string& nodes,
                             const std::string& option,
                             const ForeignContext& context = {}) {
    std::string script =
        read_megatron_cases(
            case_text(TRIAX_SOURCE_DIR "/tests/cases/megatron/base.sh"),
            "[run.sh]\nGPUS_PER_NODE=8\n--pipeline-model-parallel-size 8\n")
            .at(0)
            .script;
    script.insert(script.find("MODEL_ARGS"), nodes + "\n");
    const std::string literal = "--nnodes 1";
    script.replace(script.find(literal), literal.size(), option);
    return short_texts(check_foreign(read_megatron(script, "run.sh"), context));
  };
  const std::string error =
      "error world-size tensor-model-parallel-size refused";
  const std::string note = "note world-size tensor-model-parallel-size ";
  EXPECT_EQ(with_nodes("", "--nnodes 1"), error);
  EXPECT_EQ(with_nodes("NUM_NODES=1", "--nnodes $NUM_NODES"), note);
  EXPECT_EQ(with_nodes("", "--nnodes ${NNODES:-1}"), note);
  EXPECT_EQ(with_nodes("A=(--nnodes 1)", "${A[@]}"), error);
  EXPECT_EQ(with_nodes("NUM_NODES=1", "--nnodes $NUM_NODES", {.world = 8}),
            error);
  EXPECT_EQ(with_nodes("NUM_NODES=1", "--nnodes $NUM_NODES", {.world = 16}),
            "");
}

// 31 layers are right for the script's own pp, and may not be for another.
TEST(MegatronWorld, ADegreeThatTheCallerSaysIsNamed) {
  const auto with_pp = [](const std::string& pp) {
    std::string script =
        read_megatron_cases(
            case_text(TRIAX_SOURCE_DIR "/tests/cases/megatron/base.sh"),
            "[run.sh]\n--num-layers 31\n--pipeline-model-parallel-size $PP\n")
            .at(0)
            .script;
    script.insert(script.find("MODEL_ARGS"), "PP=" + pp + "\n");
    return check_foreign(read_megatron(script, "run.sh"));
  };
  EXPECT_EQ(short_texts(with_pp("${9:-1}")), "");
  EXPECT_THAT(with_pp("${9:-1}").unjudged,
              testing::Contains("other degrees than the defaults that the "
                                "script takes without arguments: "
                                "--pipeline-model-parallel-size 1"));
  EXPECT_THAT(short_texts(with_pp("${9:-2}")), HasSubstr("error stages-fit"));
  EXPECT_THAT(short_texts(with_pp("2")), HasSubstr("error stages-fit"));
  EXPECT_THAT(with_pp("1").unjudged,
              Not(testing::Contains(HasSubstr("other degrees"))));
}

// Heads that hidden-size does not divide by are right with their own size.
TEST(MegatronShapes, HeadsOfTheirOwnSizeNeedNotFillTheHiddenSize) {
  const std::string heads =
      "--num-attention-heads 13\n"
      "--tensor-model-parallel-size 1\n"
      "without --sequence-parallel\n";
  EXPECT_EQ(short_texts(changed(heads)),
            "error hidden-heads hidden-size refused");
  EXPECT_EQ(short_texts(changed(heads + "--kv-channels 128\n")), "");
  EXPECT_EQ(short_texts(changed(heads + "--kv-channels 128\n"
                                        "--group-query-attention\n"
                                        "--num-query-groups 8\n")),
            "error kv-heads-divide-heads num-query-groups fails later");
}

TEST(MegatronWorld, HasNoReplicasWhereADegreeIsNotKnown) {
  // 8 ranks, tp 2: dp is 4 for pp 1, and 2 for pp 2.
  EXPECT_EQ(short_texts(changed("--global-batch-size 6\n"
                                "--pipeline-model-parallel-size $PP")),
            "");
  EXPECT_EQ(short_texts(changed("--tensor-model-parallel-size 3\n"
                                "--pipeline-model-parallel-size $PP\n"
                                "without --sequence-parallel")),
            "error world-size tensor-model-parallel-size refused, "
            "error heads-divide tensor-model-parallel-size refused");
}

TEST(MegatronForks, HaveValuesOfTheirOwn) {
  const auto all = [](const std::string& changes) {
    return all_text(changed(changes));
  };
  EXPECT_THAT(all("--tokenizer-type HFTokenizer"),
              HasSubstr("note[not-judged]: tokenizer-type: \"HFTokenizer\" is "
                        "not judged"));
  EXPECT_THAT(all("--optimizer hybridadam"), Not(HasSubstr("error")));
  EXPECT_THAT(all("--tokenizer-type MyTokenizer"),
              HasSubstr("error[unknown-value]: tokenizer-type"));
  EXPECT_THAT(all("--tokenizer-type MyTokenizer\n--patch-tokenizer-type A"),
              Not(HasSubstr("error")));
  EXPECT_THAT(all("--tokenizer-type MyTokenizer\n--deepspeed"),
              HasSubstr("Megatron-DeepSpeed may"));
}

// What was computed is another thing; how it was computed is not.
TEST(MegatronKeys, ThatNothingReadsMayChangeTheRun) {
  EXPECT_EQ(short_texts(changed("--rampup-batch-size 16 16 500")),
            "warning ignored-key rampup-batch-size silently different");
  EXPECT_EQ(short_texts(changed("--apply-residual-connection-post-layernorm")),
            "warning ignored-key apply-residual-connection-post-layernorm "
            "silently different");
  EXPECT_EQ(short_texts(changed("--use-mcore-models")),
            "note ignored-key use-mcore-models ignored");
}

// A file of arguments names no program that could add its own.
TEST(MegatronKeys, OfAFileOfArgumentsAreMegatrons) {
  const std::string known = "--num-layers 2\n--hidden-size 8\n--bf16\n";
  const auto said = [&](const std::string& more,
                        const ForeignContext& context = {}) {
    return short_texts(
        check_foreign(read_megatron(known + more, "args.txt"), context));
  };
  EXPECT_EQ(said(""), "");
  EXPECT_EQ(said("--my-own-thing 3\n--my-other-thing\n"),
            "warning unknown-key my-own-thing refused, "
            "warning unknown-key my-other-thing refused");
  // With an argument of a fork they are the fork's.
  EXPECT_EQ(said("--my-own-thing 3\n--patch-tokenizer-type A\n"),
            "note unknown-key my-own-thing refused, "
            "note removed-key patch-tokenizer-type refused");
  EXPECT_EQ(said("--my-own-thing 3\n--patch-tokenizer-type A\n",
                 {.is_version_given = true}),
            "error unknown-key my-own-thing refused, "
            "error removed-key patch-tokenizer-type refused");
}

TEST(MegatronRules, SayWhereThereIsNothingToJudge) {
  const ForeignReport report = check_foreign(read_megatron(
      "cat > run.sh <<'E'\ntorchrun pretrain_gpt.py --num-layers 4\nE\n",
      "make.sh"));
  EXPECT_EQ(report.unjudged.size(), 1u);
  EXPECT_THAT(report.unjudged.at(0), HasSubstr("no command of this script"));
}

TEST(Numbers, BeyondAnyRunAreSaidOnceAndNotCalculatedWith) {
  const std::string most = "9223372036854775807";
  for (const char* key : {"num-layers",
                          "hidden-size",
                          "seq-length",
                          "micro-batch-size",
                          "global-batch-size",
                          "tensor-model-parallel-size",
                          "pipeline-model-parallel-size",
                          "context-parallel-size"}) {
    const std::string all =
        all_text(changed("--" + std::string(key) + " " + most));
    EXPECT_THAT(all,
                HasSubstr("error[out-of-range]: " + std::string(key) +
                          ": 9223372036854775807 is beyond any run"));
    EXPECT_EQ(all.find("error"), all.rfind("error")) << all;
  }
  const ForeignReport report = check_foreign(
      read_torchtitan("[training]\nseq_len = 0x7fffffffffffffff\n", "a.toml"),
      {.world = INT64_MAX});
  EXPECT_THAT(all_text(report),
              HasSubstr("error[out-of-range]: training.seq_len"));
  EXPECT_EQ(short_texts(changed("--seed " + most)), "");
}

}  // namespace
}  // namespace triax
