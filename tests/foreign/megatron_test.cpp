// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron.h"

#include <gtest/gtest.h>

#include <chrono>

#include "triax/foreign/megatron_arguments_view.h"
#include "triax/foreign/megatron_arithmetic.h"

namespace triax {
namespace {

constexpr const char* kTelling = " --num-layers 4";

ForeignConfig read(const std::string& text) {
  return read_megatron(text, "run.sh");
}

std::string value(const ForeignConfig& config, const std::string& key) {
  const ConfigValue* found = find_value(config.table, key);
  if (found == nullptr) {
    return "-";
  }
  const auto* unknown = std::get_if<ForeignValue>(&found->data);
  return unknown == nullptr ? value_text(*found) : "? " + unknown->kind;
}

std::string value(const std::string& text, const std::string& key) {
  return value(read(text), key);
}

// A script that starts a run with these words.
std::string run(const std::string& before, const std::string& words) {
  return before + "\ntorchrun pretrain_gpt.py" + kTelling + " " + words + "\n";
}

int count_rule(const ForeignConfig& config, const std::string& rule) {
  int count = 0;
  for (const Problem& problem : config.problems) {
    count += problem.rule == rule ? 1 : 0;
  }
  return count;
}

TEST(MegatronReader, SaysWhatAScriptGivesTwice) {
  const auto count = [](const std::string& text, const std::string& rule) {
    return count_rule(read(text), rule);
  };
  EXPECT_EQ(count(run("", "--seed 1 --seed 2"), "repeated-argument"), 1);
  EXPECT_EQ(count(run("", "--seed 1 --seed 1"), "repeated-argument"), 0);
  const std::string one = run("", "--seed 1");
  EXPECT_EQ(count(one, "several-runs"), 0);
  EXPECT_EQ(count(one + run("", "--seed 2 --lr 1"), "several-runs"), 1);
}

TEST(MegatronReader, FindsMisspeltVariables) {
  const std::string arrays = "MODEL_ARGS=(--hidden-size 8)\n";
  const auto found = [&](const std::string& before, const std::string& words) {
    std::string all;
    for (const Problem& problem : read(run(before, words)).problems) {
      all += problem.rule == "misspelt-variable" ? to_text(problem) : "";
    }
    return all;
  };
  EXPECT_EQ(found(arrays, "${MODLE_ARGS[@]}"),
            "run.sh:3:42: warning[misspelt-variable]: nothing in the script "
            "sets MODLE_ARGS, so the shell puts nothing here; MODEL_ARGS, set "
            "in line 1, is never used [silently different]; did you mean "
            "MODEL_ARGS?");
  EXPECT_NE(found("SEQ_LEN=4096", "--seq-length $SEQLEN"), "");
  EXPECT_NE(found(arrays, "\"${MODEL_ARG[@]}\""), "");
  // Used after all, or elsewhere.
  EXPECT_EQ(found(arrays, "${MODEL_ARGS[@]} ${MODLE_ARGS[@]}"), "");
  EXPECT_EQ(found("export " + arrays, "${MODLE_ARGS[@]}"), "");
  EXPECT_EQ(
      found(arrays + "for MODLE_ARGS in a b; do :; done", "${MODLE_ARGS[@]}"),
      "");
  EXPECT_EQ(found("source env.sh\n" + arrays, "${MODLE_ARGS[@]}"), "");
  // With a default, or nothing that is near.
  EXPECT_EQ(found(arrays, "${MODLE_ARGS:---bf16}"), "");
  EXPECT_EQ(found(arrays, "${DATA_ARGS[@]}"), "");
  EXPECT_EQ(found("STAGE1=3", "--seed $STAGE2"), "");
  EXPECT_EQ(found(arrays, "\\${MODLE_ARGS[@]}"), "");
  // A remark is no use.
  EXPECT_NE(found("# ${MODEL_ARGS[@]}\n" + arrays, "${MODLE_ARGS[@]}"), "");
  EXPECT_EQ(found("#MODLE_ARGS=\n" + arrays, "${MODEL_ARGS[@]}"), "");
  EXPECT_NE(found(arrays, "${MODLE_ARGS[@]} # nothing sets MODLE_ARGS"), "");
}

TEST(MegatronReader, FollowsVariablesArraysAndDefaults) {
  EXPECT_EQ(value(run("X=8", "--seed $X"), "seed"), "8");
  EXPECT_EQ(value(run("X=8", "--seed=${X}"), "seed"), "8");
  EXPECT_EQ(value(run("", "--seed ${X:-3}"), "seed"), "3");
  EXPECT_EQ(value(run("X=5", "--seed ${X:-3}"), "seed"), "5");
  EXPECT_EQ(value(run("A=(--seed 7)", "${A[@]}"), "seed"), "7");
  EXPECT_EQ(value(run("A=(--seed 7)", "\"${A[@]}\""), "seed"), "7");
  EXPECT_EQ(value(run("A=\"--seed 7\"", "$A"), "seed"), "7");
  EXPECT_EQ(value(run("A=(--lr 1)\nA+=(--seed 7)", "${A[*]}"), "seed"), "7");
  EXPECT_EQ(value(run("A=\"--lr 1\"\nA+=\" --seed 7\"", "$A"), "seed"), "7");
  EXPECT_EQ(value(run("A=2\nB=$((A * (3 + 1) % 5))", "--seed $B"), "seed"),
            "3");
  EXPECT_EQ(value(run("A=2", "--seed $[A * 2]"), "seed"), "4");
  EXPECT_EQ(value(run("A=(\n  --seed 7 # a remark\n)", "${A[@]}"), "seed"),
            "7");
}

TEST(MegatronReader, SaysWhatComesFromOutside) {
  EXPECT_EQ(value(run("", "--seed $1"), "seed"), "? $1");
  EXPECT_EQ(value(run("", "--seed $SEED"), "seed"), "? $SEED");
  EXPECT_EQ(value(run("X=$(nproc)", "--seed $X"), "seed"), "? $(nproc)");
  EXPECT_EQ(value(run("", "--seed $((X / 0))"), "seed"), "? $((X / 0))");
  EXPECT_EQ(value(run("", "$EXTRA"), "launch.open"), "\"$EXTRA\"");
  EXPECT_EQ(value(run("", "\"$@\""), "launch.open"), "-");
}

TEST(MegatronReader, DecidesConditionsThatItKnows) {
  const std::string known = "N=4\nif [ $N -gt 2 ]; then S=1; else S=2; fi";
  EXPECT_EQ(value(run(known, "--seed $S"), "seed"), "1");
  const std::string word = "M=7B\ncase $M in 7B|8B) S=1 ;; *) S=2 ;; esac";
  EXPECT_EQ(value(run(word, "--seed $S"), "seed"), "1");
  EXPECT_EQ(value(run("[[ -z \"$S\" ]] && S=9", "--seed $S"), "seed"), "9");
}

TEST(MegatronReader, DoesNotGuessConditionsThatItDoesNot) {
  const std::string either = "if [ \"$BIG\" = yes ]; then S=1; else S=2; fi";
  EXPECT_EQ(value(run(either, "--seed $S"), "seed"), "? $S");
  const std::string same = "if [ \"$BIG\" = yes ]; then S=1; else S=1; fi";
  EXPECT_EQ(value(run(same, "--seed $S"), "seed"), "1");
  const std::string maybe =
      "A=(--lr 1)\nif [ $FP8 = 1 ]; then A+=(--bf16 --seed 3); fi";
  const ForeignConfig config = read(run(maybe, "${A[@]}"));
  EXPECT_EQ(value(config, "lr"), "1");
  EXPECT_EQ(value(config, "bf16"), "? set under a condition");
  EXPECT_EQ(value(config, "seed"), "? 3 under a condition");
}

TEST(MegatronReader, RunsFunctionsAndEval) {
  EXPECT_EQ(value("go() { torchrun pretrain_gpt.py \"$@\" --seed $1; }\n"
                  "go 5 --num-layers 4\n",
                  "seed"),
            "5");
  EXPECT_EQ(value("C=\"torchrun pretrain_gpt.py --num-layers 4 --seed 5 &> l\""
                  "\necho $C\neval $C\n",
                  "seed"),
            "5");
  EXPECT_EQ(value("srun bash -c \"python pretrain_gpt.py --num-layers 4 "
                  "--seed 5\"\n",
                  "seed"),
            "5");
}

TEST(MegatronReader, FollowsWhatTheShellItselfSets) {
  EXPECT_EQ(value(run("N=2\n((N*=2))", "--seed $N"), "seed"), "4");
  EXPECT_EQ(value(run("N=2\n((N++))", "--seed $N"), "seed"), "3");
  EXPECT_EQ(value(run("let N=5 M=N+1", "--seed $M"), "seed"), "6");
  EXPECT_EQ(value(run("N=2\n((N = 3, M = N))", "--seed $N"), "seed"), "? $N");
  EXPECT_EQ(value(run("N=2\nread N < file", "--seed $N"), "seed"), "? $N");
  EXPECT_EQ(value(run("N=2\nprintf -v N %d 3", "--seed $N"), "seed"), "? $N");
  EXPECT_EQ(value(run("N=2\n( cd /; N=3 )", "--seed $N"), "seed"), "2");
  EXPECT_EQ(value(run("set -- --seed 4", "\"$@\""), "seed"), "4");
  EXPECT_EQ(value("go() { local name=$1; shift; torchrun pretrain_gpt.py "
                  "--num-layers 4 \"$@\"; }\ngo first --seed 5\n",
                  "seed"),
            "5");
  EXPECT_EQ(count_rule(read("go() { shift; torchrun pretrain_gpt.py "
                            "--num-layers 4 \"$@\"; }\ngo first\n"),
                       "stray-argument"),
            0);
  EXPECT_EQ(value("main() { torchrun pretrain_gpt.py --num-layers 4 --seed "
                  "${1:?a seed}; }\nmain \"$@\"\n",
                  "seed"),
            "? ${1:?a seed}");
}

TEST(MegatronReader, DoesNotKnowWhatAnotherFileSets) {
  const std::string words = "--seed ${SEED:-3}";
  for (const char* reads : {"source ./settings.sh",
                            ". ../env",
                            "export $(grep -v '^#' .env | xargs)",
                            "eval \"$(./settings)\""}) {
    EXPECT_EQ(value(run(reads, words), "seed"), "? ${SEED:-3}") << reads;
  }
  for (const char* does_not : {"source ~/venv/bin/activate",
                               "export SEED_OF=1",
                               "set -euo pipefail",
                               "source /etc/profile"}) {
    EXPECT_EQ(value(run(does_not, words), "seed"), "3") << does_not;
  }
  EXPECT_EQ(value(run("A[0]=--lr\nA[1]=1", "${A[@]}"), "launch.open"),
            "\"$A\"");
}

TEST(MegatronReader, PointsAtTheLiteral) {
  const ForeignConfig config = read(
      "X=8\nA=(\n  --seed $X\n  --lr 1e-4\n)\ntorchrun pretrain_gpt.py "
      "--num-layers 4 ${A[@]}\n");
  EXPECT_EQ(find_value(config.table, "seed")->position,
            (Position{"run.sh", 1, 3}));
  EXPECT_EQ(find_value(config.table, "lr")->position,
            (Position{"run.sh", 4, 8}));
  EXPECT_EQ(find_entry(config.table, "lr")->key_position,
            (Position{"run.sh", 4, 3}));
}

TEST(MegatronReader, ReadsArgumentsAsArgparseDoes) {
  EXPECT_EQ(value(run("", "--seed 1 --seed 2"), "seed"), "2");
  EXPECT_EQ(value(run("", "--seed 1_000"), "seed"), "1000");
  EXPECT_EQ(value(run("", "--seed -1"), "seed"), "-1");
  EXPECT_EQ(value(run("", "--seed 1e3"), "seed"), "\"1e3\"");
  EXPECT_EQ(
      value(run("", "--rampup-batch-size 16 16 500"), "rampup-batch-size"),
      "a list of 3");
  EXPECT_EQ(
      count_rule(read(run("", "--rampup-batch-size 16 16")), "argument-values"),
      1);
  EXPECT_EQ(count_rule(read(run("", "--seed")), "argument-values"), 1);
  EXPECT_EQ(count_rule(read(run("", "--bf16 true")), "argument-values"), 1);
  EXPECT_EQ(count_rule(read(run("", "--bf16=true")), "argument-values"), 1);
  EXPECT_EQ(count_rule(read(run("", "--seed 1 2")), "stray-argument"), 1);
  EXPECT_EQ(count_rule(read(run("", "--seed 1 > log 2>&1 | tee x")),
                       "stray-argument"),
            0);
  EXPECT_EQ(count_rule(read(run("", "--own-list a b c")), "stray-argument"), 0);
  EXPECT_EQ(count_rule(read(run("", "--own-list=a b")), "stray-argument"), 1);
  const ForeignConfig open = read(run("", "--own-list a $X"));
  EXPECT_FALSE(MegatronArguments(open).is_closed());
  EXPECT_EQ(count_rule(read(run("", "--seed '<a' b> c")), "stray-argument"), 0);
  EXPECT_EQ(count_rule(read(run("", "--seed '<a>' c")), "stray-argument"), 1);
  EXPECT_EQ(
      count_rule(read(run("", "--own-list a b --seed 1 2")), "stray-argument"),
      1);
}

TEST(MegatronReader, CountsRanksWhereTheLauncherSaysThem) {
  const auto world = [](const std::string& launcher) {
    return value(launcher + " pretrain_gpt.py --num-layers 4\n",
                 "launch.world");
  };
  EXPECT_EQ(world("torchrun --nproc_per_node 8 --nnodes=4"), "32");
  EXPECT_EQ(world("torchrun --nproc-per-node=8"), "8");
  EXPECT_EQ(world("python -m torch.distributed.launch --nproc_per_node 2"),
            "2");
  EXPECT_EQ(world("torchrun --nproc_per_node $N"), "-");
  EXPECT_EQ(world("torchrun --nnodes 1:4 --nproc_per_node 8"), "-");
  EXPECT_EQ(world("deepspeed --num_gpus 8 --num_nodes 2"), "16");
  EXPECT_EQ(world("deepspeed"), "-");
  EXPECT_EQ(world("python"), "-");
  EXPECT_EQ(world("srun -n 16 python"), "16");
}

TEST(MegatronReader, ReadsWordsAndLists) {
  const ForeignConfig words =
      read_megatron_words({"--num-layers", "4", "--bf16"});
  EXPECT_EQ(value(words, "num-layers"), "4");
  EXPECT_EQ(value(words, "bf16"), "true");
  EXPECT_EQ(value(words, "launch.script"), "-");
  EXPECT_EQ(value(read_megatron_words({}), "num-layers"), "-");
  EXPECT_EQ(value("--num-layers 4\n# a remark\n--seed=3\n", "seed"), "3");
  EXPECT_EQ(value("ARGS=(\n --num-layers 4 --seed 3\n)\n", "seed"), "3");
}

TEST(MegatronReader, KeepsAForksArgumentsInFrontOfTheKnown) {
  const ForeignConfig words = read_megatron_words(
      {"--my-fork-argument", "3", "--num-layers", "4", "--my-switch"});
  EXPECT_EQ(value(words, "my-fork-argument"), "3");
  EXPECT_EQ(value(words, "num-layers"), "4");
  EXPECT_EQ(value(words, "my-switch"), "true");
  const ForeignConfig unknown = read_megatron_words({"--my-fork-argument=3"});
  EXPECT_EQ(value(unknown, "my-fork-argument"), "3");
  // What stands before a program is the launcher's.
  const ForeignConfig started = read_megatron_words({"torchrun",
                                                     "--nproc-per-node",
                                                     "8",
                                                     "pretrain_gpt.py",
                                                     "--my-fork-argument",
                                                     "3",
                                                     "--num-layers",
                                                     "4"});
  EXPECT_EQ(value(started, "my-fork-argument"), "3");
  EXPECT_EQ(value(started, "nproc-per-node"), "-");
}

TEST(MegatronReader, TellsWhatTheCallerMayReplace) {
  EXPECT_EQ(value(run("PP=${9:-1}\nTP=${TP:-2}\nEP=4\n",
                      "--pipeline-model-parallel-size $PP "
                      "--tensor-model-parallel-size=$TP "
                      "--expert-model-parallel-size $EP"),
                  "launch.defaults"),
            "\"pipeline-model-parallel-size | tensor-model-parallel-size\"");
  EXPECT_EQ(value(run("PP=${9:-1}\n",
                      "--pipeline-model-parallel-size $PP "
                      "--pipeline-model-parallel-size 2"),
                  "launch.defaults"),
            "-");
}

TEST(MegatronReader, TellsItsFiles) {
  EXPECT_GT(megatron_likeness("run.sh", run("", "--hidden-size 8")), 50);
  EXPECT_EQ(megatron_likeness("run.sh", "echo hello\n"), 0);
  EXPECT_EQ(megatron_likeness("c.json", "\"--num-layers\""), 0);
}

std::string repeat(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

// One sentence or none, and back at once.
void expect_survives(const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  const ForeignConfig config = read(text);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 20.0) << text.substr(0, 60);
  for (const Problem& problem : config.problems) {
    EXPECT_EQ(to_text(problem).find('\n'), std::string::npos);
  }
  megatron_facts(config);
}

TEST(MegatronReader, SurvivesHostileText) {
  const std::string start = "torchrun pretrain_gpt.py --num-layers 4 --seed ";
  expect_survives(start + repeat("$(", 100'000));
  expect_survives(start + repeat("$(", 100'000) + repeat(")", 100'000));
  expect_survives(start + "\"" + repeat("${X:-", 100'000));
  expect_survives(start + repeat("${X:-", 50'000) + repeat("}", 50'000));
  expect_survives(start + "$((" + repeat("(", 100'000));
  expect_survives(repeat("if true; then ", 100'000));
  expect_survives(repeat("( ", 100'000));
  expect_survives(repeat("[[ ", 100'000));
  expect_survives(repeat("a() { ", 10'000));
  expect_survives(repeat("\"", 100'001));
  expect_survives(repeat("`", 100'001));
  expect_survives(repeat("cat <<E\n", 100'000));
  expect_survives("f() { f; f; }\nf\n");
  expect_survives("X=$X$X\nX=\"$X$X\"\n" + start + "$X");
  expect_survives("A=aaaaaaaa\n" + repeat("A=$A$A\n", 100) + start + "$A");
  expect_survives("A=(--a)\n" + repeat("A=(${A[@]} ${A[@]})\n", 100) + start);
  expect_survives(repeat("X=1; ", 200'000) + "\n" + start + "1");
  expect_survives(start + repeat("--x ", 500'000));
  expect_survives("((" + repeat(" ", 1'000'000) + repeat("a ", 500'000) + "))");
  expect_survives("f() { ((" + repeat("a+", 100'000) + "1)); }\n" +
                  repeat("f\n", 100'000));
  expect_survives("g() { set -- \"$@\" \"$@\"; g \"$@\"; }\ng a b\n");
  expect_survives(std::string("torchrun\0pretrain", 17));
  expect_survives("\xff\xfe--num-layers");
  expect_survives(std::string(100 << 20, '-'));
}

TEST(MegatronReader, SaysOneSentenceForWhatItCannotRead) {
  EXPECT_EQ(count_rule(read(std::string(5 << 20, 'a')), "unreadable"), 1);
  EXPECT_EQ(count_rule(read(std::string("a\0b", 3)), "unreadable"), 1);
  EXPECT_EQ(count_rule(read("\xc3("), "unreadable"), 1);
  const ForeignConfig open = read("echo \"abc\nX=1\n");
  EXPECT_EQ(count_rule(open, "syntax"), 1);
  EXPECT_TRUE(open.table.empty());
  EXPECT_EQ(open.problems[0].position, (Position{"run.sh", 1, 6}));
}

TEST(ShellArithmetic, IsThatOfTheShell) {
  const auto value = [](std::string_view text) {
    return shell_arithmetic(text, [](std::string_view name) {
      return name == "N" ? std::optional<int64_t>(6) : std::nullopt;
    });
  };
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("2 ** 3 ** 2"), 512);
  EXPECT_EQ(value("N / 4 % 2"), 1);
  EXPECT_EQ(value("$N - ${N} - 1"), -1);
  EXPECT_EQ(value("N >= 6 && N < 7"), 1);
  EXPECT_EQ(value("-N"), -6);
  EXPECT_EQ(value("M + 1"), std::nullopt);
  EXPECT_EQ(value("1 / 0"), std::nullopt);
  EXPECT_EQ(value("9223372036854775807 + 1"), std::nullopt);
  EXPECT_EQ(value("1 +"), std::nullopt);
}

TEST(MegatronFacts, AreItsArgumentsAndDefaults) {
  const RunFacts facts = megatron_facts(
      read(run("",
               "--tensor-model-parallel-size 2 --num-attention-heads 8 "
               "--use-distributed-optimizer --bf16 --seq-length 16")));
  EXPECT_EQ(*facts.tp, 2);
  EXPECT_TRUE(facts.tp.is_set());
  EXPECT_EQ(*facts.pp, 1);
  EXPECT_TRUE(facts.pp.is_default);
  EXPECT_EQ(*facts.zero_stage, 1);
  EXPECT_EQ(*facts.precision, "bf16");
  EXPECT_EQ(*facts.kv_heads, 8);
  EXPECT_EQ(*facts.vocabulary_multiple, 128);
  EXPECT_EQ(*facts.clipping, 1.0);
  EXPECT_TRUE(*facts.tied);
  EXPECT_FALSE(facts.global_batch);
}

TEST(MegatronFacts, HaveNoDefaultsWhereArgumentsMayBeMissing) {
  const RunFacts open = megatron_facts(read(run("", "$MORE")));
  EXPECT_FALSE(open.tp);
  EXPECT_FALSE(open.zero_stage);
  const RunFacts yaml = megatron_facts(read(run("", "--yaml-cfg a.yaml")));
  EXPECT_FALSE(yaml.pp);
}

}  // namespace
}  // namespace triax
