// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's arguments and a DeepSpeed JSON of one run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/check/foreign_check.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string pair(const std::vector<std::string>& words,
                 const std::string& json,
                 std::optional<int64_t> world = {}) {
  ForeignContext context;
  context.world = world;
  std::string all;
  for (const Problem& problem :
       check_pair(
           read_megatron_words(words), read_deepspeed(json, "ds.json"), context)
           .problems) {
    if (problem.position.file == "ds.json") {
      all += to_text(problem) + "\n";
    }
  }
  return all;
}

TEST(Pair, SaysWhatTheTwoSayAgainstEachOther) {
  const std::vector<std::string> words = {"--micro-batch-size",
                                          "4",
                                          "--global-batch-size",
                                          "64",
                                          "--clip-grad",
                                          "1.0",
                                          "--bf16"};
  EXPECT_THAT(
      pair(words,
           "{train_micro_batch_size_per_gpu: 2,"
           " train_batch_size: 64, gradient_clipping: 0.5,"
           " bf16: {enabled: true}}"),
      testing::AllOf(HasSubstr("error[pair-conflict]: "
                               "train_micro_batch_size_per_gpu: "
                               "train_micro_batch_size_per_gpu 2, and "),
                     HasSubstr("warning[pair-conflict]: gradient_clipping"),
                     Not(HasSubstr("train_batch_size 64, and"))));
  EXPECT_THAT(pair(words,
                   "{train_micro_batch_size_per_gpu: 4,"
                   " train_batch_size: 64, gradient_clipping: 1.0,"
                   " bf16: {enabled: true}}"),
              Not(HasSubstr("pair-conflict")));
}

// A JSON that says the same as these arguments, but for one thing.
const std::vector<std::string> kWords = {"--deepspeed",
                                         "--micro-batch-size",
                                         "4",
                                         "--global-batch-size",
                                         "64",
                                         "--clip-grad",
                                         "0.5",
                                         "--zero-stage",
                                         "1",
                                         "--bf16"};
const std::string kSame =
    "train_micro_batch_size_per_gpu: 4\ntrain_batch_size: 64\n"
    "gradient_clipping: 0.5\n";
const std::string kBf16 = "bf16: {enabled: true}\n";
const std::string kStage = "zero_optimization: {stage: 1}\n";

TEST(Pair, WithoutAContradictionSaysNothing) {
  EXPECT_EQ(pair(kWords, kSame + kBf16 + kStage, 4), "");
}

TEST(Pair, ComparesWhatIsLeftOut) {
  EXPECT_THAT(pair(kWords, kSame + kStage, 4),
              HasSubstr("error[pair-conflict]: bf16: it is left out, and the "
                        "model is made in bf16 by command line; the engine "
                        "then stops at a parameter that is not fp32 [fails "
                        "later]; add \"bf16\": {\"enabled\": true}"));
  EXPECT_THAT(pair(kWords, kSame + kBf16, 4),
              HasSubstr("zero_optimization.stage: it is left out, so the "
                        "engine takes 0, and zero-stage says 1"));
  EXPECT_THAT(pair(kWords, "train_batch_size: 64\n" + kBf16 + kStage, 4),
              HasSubstr("gradient_clipping: it is left out, so DeepSpeed "
                        "0.19.8 clips at 1, and clip-grad 0.5 in"));
  const std::vector<std::string> no_precision(kWords.begin(), kWords.end() - 1);
  EXPECT_THAT(pair(no_precision, kSame + kBf16 + kStage, 4),
              HasSubstr("bf16.enabled: bf16, and no argument of command line "
                        "asks for it"));
}

TEST(Pair, DividesTheBatchAsEachOfThemDoes) {
  // 64 / (4 * dp 4) = 4 microbatches.
  EXPECT_THAT(pair(kWords,
                   "train_micro_batch_size_per_gpu: 4\n"
                   "gradient_accumulation_steps: 2\n"
                   "gradient_clipping: 0.5\n" +
                       kBf16 + kStage,
                   4),
              HasSubstr("gradient_accumulation_steps 2, and "
                        "global-batch-size 64 / (micro-batch-size 4 * dp 4) = "
                        "4 in command line [silently different]; use 4"));
}

TEST(Pair, FollowsTheVersionsDefault) {
  ForeignContext context;
  context.world = 4;
  context.version = "0.14.5";
  std::string all;
  for (const Problem& problem :
       check_pair(
           read_megatron_words(kWords),
           read_deepspeed("train_batch_size: 64\n" + kBf16 + kStage, "ds.json"),
           context)
           .problems) {
    all += to_text(problem) + "\n";
  }
  EXPECT_THAT(all, HasSubstr("so DeepSpeed 0.14.5 does not clip"));
}

TEST(Pair, AsksTheProgramForItsSequenceGroups) {
  const std::string json =
      kSame + kBf16 + kStage + "sequence_parallel_size: 2\n";
  EXPECT_THAT(pair(kWords, json, 8),
              HasSubstr("ds.json:6:25: warning[pair-conflict]: "
                        "sequence_parallel_size: sequence_parallel_size 2, "
                        "and command line makes no such groups"));
  std::vector<std::string> words = kWords;
  words.insert(words.end(), {"--ds-sequence-parallel-size", "2"});
  EXPECT_THAT(pair(words, json, 8), Not(HasSubstr("pair-conflict")));
}

TEST(Pair, SaysEachQuestionOnceAndWhoseItIs) {
  std::vector<std::string> words = kWords;
  words.insert(words.end(), {"--tensor-model-parallel-size", "2"});
  const std::vector<std::string> clauses =
      check_pair(
          read_megatron_words(words),
          read_deepspeed("zero_optimization: {stage: 3}\n" + kSame, "ds.json"),
          {.world = 8})
          .unjudged;
  EXPECT_THAT(clauses,
              testing::UnorderedElementsAre(
                  HasSubstr("Megatron-DeepSpeed's own assertions"),
                  "whether tp crosses hosts: give --cluster with "
                  "devices_per_host",
                  "whether heads and layers split over tp and pp: give --model",
                  "ds.json: whether zero 1 would fit: give --model and "
                  "--cluster with device_memory"));
}

// The sizes that the arguments say need no --model.
TEST(Pair, TakesTheModelOfTheArguments) {
  std::vector<std::string> words = kWords;
  for (const char* word : {"--num-layers",
                           "24",
                           "--hidden-size",
                           "2048",
                           "--num-attention-heads",
                           "16",
                           "--vocab-size",
                           "50304"}) {
    words.push_back(word);
  }
  ForeignContext context;
  context.world = 8;
  context.device_bytes = int64_t{80} << 30;
  std::string all;
  for (const Problem& problem :
       check_pair(
           read_megatron_words(words),
           read_deepspeed("zero_optimization: {stage: 3}\n" + kSame, "ds.json"),
           context)
           .problems) {
    all += to_text(problem) + "\n";
  }
  EXPECT_THAT(all, HasSubstr("zero 1 fits: 1,310,982,144 parameters"));
  words.resize(words.size() - 2);
  EXPECT_THAT(
      check_pair(
          read_megatron_words(words),
          read_deepspeed("zero_optimization: {stage: 3}\n" + kSame, "ds.json"),
          context)
          .unjudged,
      testing::Contains("ds.json: whether a rank's memory holds the run, "
                        "whether zero 1 would fit: give --model for the "
                        "vocabulary"));
}

TEST(Pair, APipelineOfZeroTwoIsFoundHoweverItIsSaid) {
  std::vector<std::string> words = kWords;
  words.insert(words.end(), {"--pipeline-model-parallel-size", "2"});
  EXPECT_THAT(
      pair(words, kSame + kBf16 + "zero_optimization: {stage: 2}\n", 8),
      HasSubstr("error[pipeline-zero]: zero_optimization.stage: zero stage 2 "
                "with pipeline-model-parallel-size 2 in command line"));
  words.push_back("--no-pipeline-parallel");
  EXPECT_THAT(pair(words, kSame + kBf16 + "zero_optimization: {stage: 2}\n", 8),
              Not(HasSubstr("pipeline-zero")));
}

// NNODES=1 in a script is there to be changed: more ranks may fit.
std::string pair_of_script(const std::string& json,
                           std::optional<int64_t> world = {}) {
  const std::string script =
      "NNODES=1\ntorchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py "
      "--deepspeed --no-pipeline-parallel --micro-batch-size 4 "
      "--global-batch-size 128\n";
  ForeignContext context;
  context.world = world;
  const ForeignReport report = check_pair(read_megatron(script, "run.sh"),
                                          read_deepspeed(json, "ds.json"),
                                          context);
  std::string all;
  for (const Problem& problem : report.problems) {
    all += to_text(problem) + "\n";
  }
  for (const std::string& clause : report.unjudged) {
    all += clause + "\n";
  }
  return all;
}

TEST(Pair, APlaceholderOfAWorldIsNotTheWorld) {
  const std::string sizes =
      "train_batch_size: 128\ntrain_micro_batch_size_per_gpu: 4\n";
  const std::string twice = sizes + "gradient_accumulation_steps: 2\n";
  EXPECT_THAT(
      pair_of_script(twice),
      testing::AllOf(Not(HasSubstr("error")),
                     HasSubstr("the batch sizes ask for 2 times the ranks")));
  EXPECT_THAT(pair_of_script(twice, 8), HasSubstr("error[batch-triangle]"));
  EXPECT_THAT(pair_of_script(twice, 16), Not(HasSubstr("error")));
  // 4 * 3 * (a multiple of 8) is never 128.
  EXPECT_THAT(pair_of_script(sizes + "gradient_accumulation_steps: 3\n"),
              HasSubstr("error[batch-triangle]"));
  const std::string groups =
      sizes + "zero_optimization: {stage: 3, zero_hpz_partition_size: 16}\n";
  EXPECT_THAT(pair_of_script(groups), Not(HasSubstr("error")));
  EXPECT_THAT(pair_of_script(groups, 24), HasSubstr("24 ranks do not split"));
}

TEST(DeepSpeedArguments, HaveMegatronsWarmUp) {
  const auto warmup = [](const char* steps) {
    std::string all;
    for (const Problem& problem :
         check_foreign(read_megatron_words({"pretrain_gpt.py",
                                            "--deepspeed",
                                            "--train-iters",
                                            "1000",
                                            "--lr-warmup-iters",
                                            steps}))
             .problems) {
      all += to_text(problem) + "\n";
    }
    return all;
  };
  EXPECT_THAT(warmup("1000"),
              HasSubstr("error[warmup-steps]: lr-warmup-iters: a warm-up of "
                        "1000 is not shorter than the 1000"));
  EXPECT_THAT(warmup("999"), Not(HasSubstr("warmup-steps")));
}

std::string alone(const std::vector<std::string>& words) {
  std::string all;
  for (const Problem& problem :
       check_foreign(read_megatron_words(words), {.world = 8}).problems) {
    all += to_text(problem) + "\n";
  }
  return all;
}

TEST(DeepSpeedArguments, AloneSayAPipelineOfZeroTwo) {
  const std::vector<std::string> words = {"--pipeline-model-parallel-size",
                                          "2",
                                          "--deepspeed",
                                          "--zero-stage",
                                          "2"};
  EXPECT_THAT(alone(words),
              HasSubstr("error[pipeline-zero]: zero-stage: zero stage 2 with "
                        "pipeline-model-parallel-size 2"));
  EXPECT_THAT(alone({"pretrain_gpt.py", "--deepspeed", "--zero-stage", "2"}),
              HasSubstr("a GPT of one pipeline stage"));
  EXPECT_EQ(alone({"pretrain_gpt.py",
                   "--deepspeed",
                   "--zero-stage",
                   "2",
                   "--no-pipeline-parallel"}),
            "");
}

TEST(DeepSpeedArguments, TakeOnePrecision) {
  EXPECT_THAT(alone({"--fp16", "--bf16", "--deepspeed"}),
              HasSubstr("error[precision-conflict]: bf16: --fp16 and --bf16 "
                        "are both given"));
}

TEST(Pair, ReadsTheJsonInTheLayoutOfTheArguments) {
  const std::vector<std::string> words = {"--tensor-model-parallel-size",
                                          "2",
                                          "--pipeline-model-parallel-size",
                                          "2"};
  const std::string json =
      "{train_batch_size: 8, train_micro_batch_size_per_gpu: 2,"
      " gradient_accumulation_steps: 1, zero_optimization: {stage: 2},"
      " gradient_clipping: 1.0}";
  EXPECT_THAT(pair(words, json, 16), Not(HasSubstr("batch-triangle")));
  EXPECT_THAT(pair(words, json, 8),
              HasSubstr("dp 2 (8 ranks / (tp 2 * pp 2))"));
  EXPECT_THAT(pair(words, json, 16), HasSubstr("error[pipeline-zero]"));
}

}  // namespace
}  // namespace triax
