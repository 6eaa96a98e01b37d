// SPDX-License-Identifier: Apache-2.0
// A name is never taken for its contrary, nor renamed to what takes another
// kind of value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/check/case_files.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kScript =
    "torchrun --nproc-per-node 1 pretrain_gpt.py --num-layers 2"
    " --hidden-size 64 --num-attention-heads 4 --seq-length 32"
    " --max-position-embeddings 32 --micro-batch-size 1 --train-iters 9"
    " --lr 1e-4 ";

ForeignReport of_arguments(const std::string& more) {
  return check_foreign(read_megatron(kScript + more + "\n", "a.sh"), {});
}

const Problem* unknown_key(const ForeignReport& report) {
  for (const Problem& problem : report.problems) {
    if (problem.rule == "unknown-key") {
      return &problem;
    }
  }
  return nullptr;
}

TEST(OppositeNames, OfMegatronAreNoSlips) {
  for (const std::string name : {"tie-embeddings-and-output-weights",
                                 "load-optim",
                                 "overlap-p2p-communication"}) {
    const ForeignReport report = of_arguments("--" + name);
    const Problem* problem = unknown_key(report);
    ASSERT_NE(problem, nullptr) << name;
    EXPECT_EQ(problem->severity, Severity::kError) << name;
    EXPECT_FALSE(problem->edit.has_value()) << name;
    EXPECT_THAT(problem->fix, Not(HasSubstr("did you mean")));
    EXPECT_THAT(problem->fix, HasSubstr("leave it out: there is only --"));
    EXPECT_THAT(problem->fix, HasSubstr(name + ", which turns it off"));
  }
}

TEST(OppositeNames, OfMegatronStopItTogether) {
  const ForeignReport report =
      of_arguments("--load-optim --overlap-p2p-communication");
  EXPECT_EQ(
      std::ranges::count(report.problems, Severity::kError, &Problem::severity),
      2)
      << all_text(report);
}

TEST(OppositeNames, OfDeepSpeedAreNoSlips) {
  const ForeignReport report = check_foreign(
      read_deepspeed("{\"train_batch_size\": 8, \"gradient_clipping\": 1.0,\n"
                     "\"zero_optimization\": {\"no_overlap_comm\": true}}",
                     "a.json"),
      {.world = 1});
  const Problem* problem = unknown_key(report);
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->severity, Severity::kError);
  EXPECT_FALSE(problem->edit.has_value());
  EXPECT_EQ(problem->fix,
            "there is only overlap_comm, its opposite: write that, or nothing");
}

// The words of other systems, too far from the key's own to be a slip.
TEST(OtherNames, AreSuggestedAndNotWritten) {
  struct Named {
    ForeignConfig config;
    const char* fix;
  };
  const std::string base = "{\"train_batch_size\": 8, \"";
  const std::vector<Named> cases = {
      {read_deepspeed(base + "gradient_clip\": 1.0}", "a.json"),
       "did you mean gradient_clipping?"},
      {read_deepspeed(base + "grad_clip\": 1.0}", "a.json"),
       "did you mean gradient_clipping?"},
      {read_deepspeed(base + "max_grad_norm\": 1.0}", "a.json"),
       "did you mean gradient_clipping?"},
      {read_deepspeed(base + "train_micro_batch_size\": 1}", "a.json"),
       "did you mean train_micro_batch_size_per_gpu?"},
      {read_nanotron("optimizer:\n  grad_clip: 1.0\n", "a.yaml"),
       "did you mean clip_grad?"},
      {read_torchtitan("[training]\nglobal_batch = 8\n", "a.toml"),
       "did you mean global_batch_size?"},
      {read_torchtitan("[training]\nlocal_batch = 8\n", "a.toml"),
       "did you mean local_batch_size?"},
  };
  for (const Named& named : cases) {
    const ForeignReport report = check_foreign(named.config, {.world = 1});
    const Problem* problem = unknown_key(report);
    ASSERT_NE(problem, nullptr) << named.fix;
    EXPECT_EQ(problem->fix, named.fix);
    EXPECT_EQ(problem->severity, Severity::kError);
    EXPECT_FALSE(problem->edit.has_value());
  }
}

TEST(OtherNames, OfParametersAreKnown) {
  const ForeignReport report = check_foreign(
      read_deepspeed("{\"train_batch_size\": 8, \"gradient_clipping\": 1.0,"
                     "\"optimizer\": {\"type\": \"AdamW\", \"params\":"
                     " {\"learning_rate\": 1e-4, \"beta1\": 0.9}}}",
                     "a.json"),
      {.world = 1});
  ASSERT_EQ(report.problems.size(), 2u) << all_text(report);
  EXPECT_EQ(report.problems[0].fix, "did you mean lr?");
  ASSERT_TRUE(report.problems[0].edit.has_value());
  EXPECT_EQ(report.problems[0].edit->to, "lr");
  EXPECT_EQ(report.problems[1].fix, "did you mean betas?");
  EXPECT_FALSE(report.problems[1].edit.has_value());
}

TEST(NearNames, OfAnotherKindOfValueAreNotWritten) {
  const ForeignReport other = of_arguments("--activation-func gelu");
  ASSERT_NE(unknown_key(other), nullptr);
  EXPECT_FALSE(unknown_key(other)->edit.has_value());
  EXPECT_THAT(unknown_key(other)->fix, Not(HasSubstr("clamp")));
  const ForeignReport same = of_arguments("--tensor-model-parallel 1");
  ASSERT_NE(unknown_key(same), nullptr);
  EXPECT_EQ(unknown_key(same)->fix,
            "did you mean --tensor-model-parallel-size?");
  EXPECT_TRUE(unknown_key(same)->edit.has_value());
}

}  // namespace
}  // namespace triax
