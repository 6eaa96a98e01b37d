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
