// SPDX-License-Identifier: Apache-2.0
// Releases of DeepSpeed before 0.19.8, and what splits its ranks into groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/check/case_files.h"
#include "triax/check/foreign_check.h"
#include "triax/foreign/deepspeed.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string checked(const std::string& text,
                    const ForeignContext& context = {}) {
  const ForeignReport report = check_foreign(
      read_deepspeed(text + "\ngradient_clipping: 1", "a.json"), context);
  return text_with_unjudged(report);
}

constexpr const char* kElastic =
    "elasticity: {enabled: true, max_train_batch_size: 2000,"
    " micro_batch_sizes: [2, 4, 6]}\n";

// The releases that have it choose the batch by it.
TEST(DeepSpeedElasticity, ChoosesTheBatchItself) {
  const ForeignContext old{.world = 12, .version = "0.14.0"};
  EXPECT_EQ(checked(kElastic, old),
            "not judged: the batch that elasticity chooses, and which worlds "
            "it accepts\n");
  const std::string beside = std::string(kElastic) + "train_batch_size: 7\n";
  EXPECT_THAT(checked(beside, old),
              HasSubstr("a.json:2:19: error[refused-combination]: "
                        "train_batch_size: elasticity is enabled"));
  EXPECT_THAT(checked(beside, old), Not(HasSubstr("batch-triangle")));
  EXPECT_THAT(
      checked("elasticity: {enabled: true, max_train_batch_size: 8,"
              " micro_batch_sizes: [2], ignore_non_elastic_batch_info: true}\n"
              "train_batch_size: 7\n",
              old),
      HasSubstr("note[no-effect]: train_batch_size"));
  EXPECT_THAT(checked("elasticity: {enabled: false}\n", old),
              HasSubstr("[batch-triangle]"));
  EXPECT_THAT(checked(kElastic, {.world = 12}), HasSubstr("removed-key"));
}

TEST(DeepSpeedElasticity, NeedsItsSizes) {
  const ForeignContext old{.world = 12, .version = "0.14.0"};
  EXPECT_THAT(checked("elasticity: {enabled: true}\n", old),
              testing::AllOf(HasSubstr("it needs max_train_batch_size"),
                             HasSubstr("it needs micro_batch_sizes")));
  EXPECT_THAT(checked("elasticity: {enabled: true, max_train_batch_size: 8,"
                      " micro_batch_sizes: [2, 0]}\n",
                      old),
              HasSubstr("a.json:1:77: error[out-of-range]"));
}

TEST(DeepSpeedVersions, ClipFromTheReleaseThatChangedIt) {
  const auto notes = [](const std::string& version) {
    ForeignContext context;
    context.world = 1;
    context.version = version;
    return check_foreign(read_deepspeed("{train_batch_size: 1}", "a.json"),
                         context)
        .problems.size();
  };
  EXPECT_EQ(notes("0.19.2"), 0u);
  EXPECT_EQ(notes("0.19.3"), 1u);
}

TEST(DeepSpeedVersions, RefuseFromTheReleaseThatDroppedIt) {
  const std::string text = "train_batch_size: 1\nnebula: {}\n";
  EXPECT_EQ(checked(text, {.world = 1, .version = "0.19.6"}), "");
  EXPECT_THAT(checked(text, {.world = 1, .version = "0.19.7"}),
              HasSubstr("removed-key"));
}

TEST(DeepSpeedVersions, HaveTheirOwnOptimizers) {
  const ForeignContext old{.world = 1, .version = "0.16.9"};
  const std::string batch = "train_batch_size: 1\n";
  EXPECT_EQ(checked(batch + "optimizer: {type: 'OneBitAdam', params: "
                            "{freeze_step: 400, cuda_aware: true}}\n",
                    old),
            "");
  EXPECT_THAT(checked(batch + "optimizer: {type: 'OneBitAdam', params: "
                              "{freeze_stp: 400}}\n",
                      old),
              HasSubstr("OnebitAdam has no such parameter: a TypeError as it "
                        "is made [fails later]; did you mean freeze_step?"));
  EXPECT_THAT(checked(batch + "optimizer: {type: 'ZeroOneAdam'}\n"
                              "zero_optimization: {stage: 1}\n",
                      old),
              HasSubstr("\"ZeroOneAdam\" asserts that ZeRO is off"));
}

TEST(DeepSpeedGroups, DivideTheWorld) {
  const std::string text =
      "train_batch_size: 12\n"
      "zero_optimization: {stage: 3, zero_hpz_partition_size: 8}\n";
  EXPECT_THAT(checked(text, {.world = 12}),
              HasSubstr("a.json:2:56: error[refused-combination]: "
                        "zero_optimization.zero_hpz_partition_size: 12 ranks "
                        "do not split into groups of 8: 4 would be left over"));
  EXPECT_THAT(checked(text, {.world = 8}), Not(HasSubstr("groups")));
  // A group of more ranks than there are is all of them.
  EXPECT_THAT(checked(text, {.world = 4}), Not(HasSubstr("groups")));
  EXPECT_THAT(checked(text),
              HasSubstr("not judged: whether "
                        "zero_optimization.zero_hpz_partition_size 8 divides "
                        "the world: give --world"));
  EXPECT_THAT(checked(text, {.world = 24, .ranks_on_host = 4}),
              HasSubstr("note[slow-choice]: "
                        "zero_optimization.zero_hpz_partition_size: groups of "
                        "8 do not lie within hosts of 4"));
}

TEST(DeepSpeedGroups, OfMiCSAreThoseOfOldReleases) {
  const std::string text =
      "train_batch_size: 12\n"
      "zero_optimization: {stage: 3, mics_shard_size: 8}\n";
  EXPECT_THAT(checked(text, {.world = 12, .version = "0.16.9"}),
              HasSubstr("mics_shard_size: 12 ranks do not split into groups"));
  EXPECT_THAT(checked(text, {.world = 12}), HasSubstr("removed-key"));
  EXPECT_THAT(checked("train_batch_size: 12\n"
                      "zero_optimization: {stage: 2, mics_shard_size: 8}\n",
                      {.world = 12, .version = "0.16.9"}),
              HasSubstr("warning[no-effect]"));
}

TEST(DeepSpeedGroups, OfQuantizedGradientsAreWholeHosts) {
  const std::string text =
      "train_batch_size: 12\n"
      "zero_optimization: {stage: 3, zero_quantized_gradients: true}\n";
  EXPECT_THAT(checked(text, {.world = 12, .ranks_on_host = 8}),
              HasSubstr("12 ranks on hosts of 8 leave 4 over"));
  EXPECT_THAT(checked(text, {.world = 4, .ranks_on_host = 8}),
              Not(HasSubstr("refused-combination")));
  EXPECT_THAT(
      checked("train_batch_size: 12\n"
              "zero_optimization: {stage: 2, zero_quantized_weights: true}\n",
              {.world = 12}),
      HasSubstr("warning[no-effect]: zero_optimization.zero_quantized_weights:"
                " only stage 3 quantizes what it sends, and the stage is 2 "
                "[ignored]; use stage 3, or leave it out"));
  EXPECT_THAT(
      checked("train_batch_size: 12\n"
              "zero_optimization: {stage: 1, zero_hpz_partition_size: 4}\n",
              {.world = 12}),
      HasSubstr("warning[no-effect]: zero_optimization.zero_hpz_partition_"));
}

TEST(DeepSpeedProfile, IsMissedInALongRun) {
  const std::string text =
      "train_batch_size: 8\nscheduler: {type: 'WarmupDecayLR', params: "
      "{total_num_steps: 50000}}\n";
  EXPECT_THAT(checked(text, {.world = 8}),
              HasSubstr("note[slow-choice]: flops_profiler.enabled: 50,000 "
                        "steps and no step of them is profiled"));
  EXPECT_EQ(checked(text + "wall_clock_breakdown: true\n", {.world = 8}), "");
  EXPECT_EQ(checked(text + "flops_profiler: {enabled: true}\n", {.world = 8}),
            "");
}

TEST(DeepSpeedForks, AreKnownByTheirKeysAndNotJudged) {
  EXPECT_EQ(checked("train_batch_size: 8\npipe-parallel-size: 1\n"
                    "num-layers: 12\noptimizer: {type: 'sm3'}\n",
                    {.world = 8}),
            "not judged: pipe-parallel-size, num-layers: keys of GPT-NeoX\n"
            "not judged: optimizer.type \"sm3\": a value of GPT-NeoX\n");
  EXPECT_EQ(
      checked("train_batch_size: 8\nfp16: {type: 'bfloat16'}\n", {.world = 8}),
      "not judged: fp16.type: a key of DeeperSpeed\n");
  EXPECT_THAT(checked("train_batch_size: 8\nnum-layers: 12\n", {.world = 8}),
              HasSubstr("warning[unknown-key]: num-layers"));
}

// DeepSpeed itself takes them: tests/foreign/deepspeed/cases/*_huge*.
TEST(DeepSpeedNumbers, BeyondSixtyFourBitsAreSaid) {
  EXPECT_THAT(
      checked("train_batch_size: 99999999999999999999999\n", {.world = 1}),
      HasSubstr("warning[out-of-range]: train_batch_size: 1e+23 is beyond 64 "
                "bits"));
  const std::string most = "9223372036854775807";
  EXPECT_THAT(
      checked("train_batch_size: " + most + "\nvocabulary_size: " + most + "\n",
              {.world = 1}),
      testing::AllOf(Not(HasSubstr("it takes a whole number")),
                     HasSubstr("vocabulary to " + most)));
  EXPECT_THAT(checked("train_batch_size: 8\nzero_optimization: "
                      "{reduce_bucket_size: 1e30}\n",
                      {.world = 1}),
              HasSubstr("1e+30 is a number beyond 64 bits, and it takes a "
                        "whole number"));
  EXPECT_THAT(
      checked("train_batch_size: 8\nsequence_parallel_size: " + most,
              {.world = 8}),
      HasSubstr("sequence_parallel_size " + most + " is more than 8 ranks"));
}

TEST(DeepSpeedNumbers, NaNIsATextToTheLoader) {
  EXPECT_THAT(checked("train_batch_size: NaN,\n", {.world = 1}),
              HasSubstr("error[wrong-type]: train_batch_size: \"NaN,\" is a "
                        "text to the loader, which knows neither NaN nor "
                        "Infinity [refused]"));
  EXPECT_THAT(checked("train_batch_size: 8\nsteps_per_print: -Infinity\n",
                      {.world = 1}),
              HasSubstr("\"-Infinity\" is a text to the loader"));
}

TEST(DeepSpeedGroups, AreNamedByTheirOwnKeys) {
  EXPECT_THAT(
      checked("train_batch_size: 8\nsequence_parallel_size: 3\n", {.world = 8}),
      HasSubstr("a.json:2:25: error[world-size]: "
                "sequence_parallel_size: 8 ranks do not split over"));
  EXPECT_THAT(checked("train_batch_size: 8\nsequence_parallel_size: 2\n"
                      "data_parallel_size: 2\n",
                      {.world = 8}),
              HasSubstr("a.json:3:21: error[world-size]: data_parallel_size"));
  EXPECT_THAT(
      checked("train_batch_size: 8\ndata_parallel_size: 2\n", {.world = 8}),
      HasSubstr("note[no-effect]: data_parallel_size"));
  EXPECT_THAT(checked("train_batch_size: 8\n"
                      "tensor_parallel: {autotp_size: 2, tp: {tp_size: 4}}\n",
                      {.world = 8}),
              HasSubstr("tensor_parallel.tp.tp_size: 4, and "
                        "tensor_parallel.autotp_size is 2"));
}

}  // namespace
}  // namespace triax
