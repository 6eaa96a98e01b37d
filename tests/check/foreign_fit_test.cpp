// SPDX-License-Identifier: Apache-2.0
// Runs that a device's memory cannot hold, and advice on the zero stage that
// hangs on what the config leaves to others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/model_shapes.h"
#include "triax/foreign/system.h"

namespace triax {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kRule = "[memory-exceeds-machine]";

ForeignContext with_memory(int64_t world, int64_t gibibytes) {
  ForeignContext context;
  context.world = world;
  context.device_bytes = gibibytes << 30;
  context.ranks_on_host = 8;
  context.link_bytes_per_second = 50e9;
  return context;
}

ForeignContext with_model(const char* model, ForeignContext context) {
  context.model = load_model_shape(model);
  context.model_file = model;
  return context;
}

std::string checked(System system,
                    const std::string& text,
                    const ForeignContext& context) {
  const ForeignReport report =
      check_foreign(find_system(system)->read(text, "file"), context);
  std::string all;
  for (const Problem& problem : report.problems) {
    all += to_text(problem) + "\n";
  }
  for (const std::string& clause : report.unjudged) {
    all += "not judged: " + clause + "\n";
  }
  return all;
}

std::string deepspeed(const std::string& rest, const ForeignContext& context) {
  return checked(System::kDeepSpeed,
                 "train_micro_batch_size_per_gpu: 1\n"
                 "gradient_accumulation_steps: 4\n"
                 "gradient_clipping: 1\n" +
                     rest,
                 context);
}

const std::string kAdam = "optimizer: {type: 'AdamW', params: {lr: 1e-4}}\n";
const std::string kBf16 = "bf16: {enabled: true}\n";

std::string zero(const std::string& rest) {
  return "zero_optimization: {" + rest + "}\n";
}

// Weights 2, gradients 2, fp32 weights and two moments 12, of 8 B parameters.
TEST(ForeignFit, CountsTheStatesOfEachZeroStage) {
  const ForeignContext context = with_model("llama-3-8b", with_memory(8, 24));
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 2"), context),
              HasSubstr("file:6:28: warning[memory-exceeds-machine]: "
                        "zero_optimization.stage: 8,029,995,008 parameters a "
                        "rank * (2 + 2 / 8 + 12 / 8) bytes = 28.0 GiB of "
                        "weights, gradients and optimizer states, if all of "
                        "the model trains, more than the 24.0 GiB of a device "
                        "[out of memory]; use zero 3 (15.0 GiB)"));
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 3"), context),
              Not(HasSubstr(kRule)));
  EXPECT_THAT(deepspeed(kAdam + zero("stage: 1"), context),
              HasSubstr("(4 + 4 + 8 / 8) bytes"));
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 3"),
                        with_model("llama-3-70b", with_memory(8, 80))),
              HasSubstr("use more ranks, offload_optimizer"));
}

// What is not certain counts nothing.
TEST(ForeignFit, LeavesOutWhatMayLieElsewhere) {
  const ForeignContext context = with_model("llama-3-8b", with_memory(8, 24));
  const std::string cpu = "offload_optimizer: {device: 'cpu'}";
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 2, " + cpu), context),
              Not(HasSubstr(kRule)));
  EXPECT_THAT(deepspeed(kAdam + zero("stage: 1, " + cpu), context),
              HasSubstr("parameters a rank * 4 bytes = 29.9 GiB"));
  // The program's optimizer may keep no moments.
  EXPECT_THAT(deepspeed(kBf16 + zero("stage: 2"), context),
              Not(HasSubstr(kRule)));
  EXPECT_THAT(
      deepspeed(kBf16 + kAdam + "pipeline: {}\n" + zero("stage: 1"), context),
      AllOf(Not(HasSubstr(kRule)),
            HasSubstr("not judged: whether a rank's memory holds the "
                      "run: the pipeline's stages are the program's")));
  EXPECT_THAT(
      deepspeed("bf16: {enabled: 'auto'}\n" + kAdam + zero("stage: 2"),
                context),
      AllOf(Not(HasSubstr(kRule)),
            HasSubstr("not judged: whether a rank's memory holds the run: "
                      "bf16.enabled is \"auto\"")));
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 'auto'"), context),
              Not(HasSubstr(kRule)));
}

TEST(ForeignFit, SaysWhatItWouldNeed) {
  ForeignContext context = with_model("llama-3-8b", with_memory(8, 24));
  context.world.reset();
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 2"), context),
              HasSubstr("not judged: whether a rank's memory holds the run, "
                        "whether zero 1 would fit: give --world"));
  // Without a split the world does not matter.
  EXPECT_THAT(deepspeed(kBf16 + kAdam, context), HasSubstr(kRule));
  context.device_bytes.reset();
  EXPECT_THAT(deepspeed(kBf16 + kAdam, context),
              HasSubstr("not judged: whether a rank's memory holds the run: "
                        "give --cluster with device_memory"));
  EXPECT_THAT(deepspeed(kBf16 + kAdam, {}), Not(HasSubstr("holds the run")));
}

std::string megatron(const std::string& rest, const ForeignContext& context) {
  return checked(
      System::kMegatron,
      "torchrun --nproc-per-node 8 --nnodes 1 pretrain_gpt.py --num-layers 32 "
      "--hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --swiglu "
      "--untie-embeddings-and-output-weights --seq-length 4096 "
      "--max-position-embeddings 4096 --lr 1e-4 --train-iters 10 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16 " +
          rest + "\n",
      context);
}

// Under bf16 Megatron-LM sums gradients in fp32. Its own sizes are enough.
TEST(ForeignFit, CountsMegatronsStatesByItsOwnSizes) {
  const ForeignContext context = with_memory(8, 80);
  const std::string vocabulary = "--vocab-size 128256 ";
  EXPECT_THAT(megatron(vocabulary, context),
              AllOf(HasSubstr("warning[memory-exceeds-machine]: num-layers: "
                              "8,029,995,008 parameters a rank * (2 + 4 + 12) "
                              "bytes = 134.6 GiB"),
                    HasSubstr("use --use-distributed-optimizer (7")));
  EXPECT_THAT(megatron(vocabulary + "--use-distributed-optimizer", context),
              Not(HasSubstr(kRule)));
  // Without its vocabulary it is larger still.
  EXPECT_THAT(megatron("", context),
              HasSubstr("6,979,321,856 parameters without the embedding a rank "
                        "* (2 + 4 + 12) bytes"));
  EXPECT_THAT(megatron("--use-distributed-optimizer", context),
              HasSubstr("not judged: whether a rank's memory holds the run: "
                        "give --model for the vocabulary"));
  EXPECT_THAT(megatron(vocabulary + "--tensor-model-parallel-size 4 "
                                    "--no-overlap-p2p-communication",
                       context),
              Not(HasSubstr(kRule)));
}

TEST(ForeignFit, CountsActivationsWhereAllOfThemStay) {
  const ForeignContext context = with_memory(8, 48);
  const std::string split =
      "--vocab-size 128256 --use-distributed-optimizer "
      "--tensor-model-parallel-size 2 --micro-batch-size 8 ";
  // s b [8 h + ((4 + 4 k/a) h + 6 f) / tp], all by tp with --sequence-parallel.
  EXPECT_THAT(megatron(split, context),
              AllOf(HasSubstr(" + 32 layers * 1 live microbatch * 2."),
                    HasSubstr("recompute the layers, or use a smaller")));
  EXPECT_THAT(megatron(split + "--recompute-granularity full "
                               "--recompute-method uniform "
                               "--recompute-num-layers 1",
                       context),
              Not(HasSubstr(kRule)));
}

TEST(ForeignFit, DoesNotJudgeMegatronsOpenEnds) {
  const ForeignContext context = with_memory(8, 24);
  for (const char* rest : {"--num-experts 8 --disable-bias-linear",
                           "$EXTRA",
                           "--use-precision-aware-optimizer "
                           "--use-distributed-optimizer",
                           "--fp8-format hybrid --fp8-param-gather"}) {
    EXPECT_THAT(megatron(rest, context),
                AllOf(Not(HasSubstr(kRule)),
                      HasSubstr("not judged: whether a rank's memory holds the "
                                "run: ")))
        << rest;
  }
  // NNODES=1 may stand for more nodes, and they would split the states.
  ForeignContext open = context;
  open.world.reset();
  const std::string script =
      "NNODES=1\ntorchrun --nproc-per-node 8 --nnodes $NNODES pretrain_gpt.py "
      "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --bf16 "
      "--micro-batch-size 1 --use-distributed-optimizer\n";
  EXPECT_THAT(
      checked(System::kMegatron, script, open),
      AllOf(Not(HasSubstr(kRule)), HasSubstr("holds the run: give --world")));
}

std::string torchtitan(const std::string& rest, const ForeignContext& context) {
  return checked(System::kTorchTitan,
                 "[model]\nname = \"llama3\"\nflavor = \"70B\"\n"
                 "[training]\nsteps = 10\n" +
                     rest,
                 context);
}

// FSDP keeps fp32 shards of all three.
TEST(ForeignFit, CountsTorchTitansShards) {
  EXPECT_THAT(torchtitan("", with_memory(8, 80)),
              HasSubstr("model.flavor: 70,552,387,584 parameters a rank * (4 / "
                        "8 + 4 / 8 + 8 / 8) bytes = 131.4 GiB of weights, "
                        "gradients and optimizer states, more than the 80.0 "
                        "GiB of a device [out of memory]; use 2 times as many "
                        "ranks, or a smaller model"));
  EXPECT_THAT(torchtitan("", with_memory(64, 80)), Not(HasSubstr(kRule)));
  EXPECT_THAT(torchtitan("dtype = \"bfloat16\"\n", with_memory(8, 80)),
              Not(HasSubstr(kRule)));
  EXPECT_THAT(torchtitan("enable_cpu_offload = true\n", with_memory(8, 80)),
              HasSubstr("holds the run: training.enable_cpu_offload is on"));
  EXPECT_THAT(torchtitan("[parallelism]\ndata_parallel_replicate_degree = 4\n",
                         with_memory(32, 80)),
              HasSubstr("(4 / 8 + 4 / 8 + 8 / 8)"));
}

TEST(ForeignFit, CountsNanotronsStates) {
  const auto nanotron = [](const std::string& zero, int64_t gibibytes) {
    return checked(
        System::kNanotron,
        "parallelism: {dp: 4, tp: 1, pp: 1}\n"
        "model:\n  dtype: bfloat16\n  model_config: {num_hidden_layers: 32, "
        "hidden_size: 4096, intermediate_size: 11008, num_attention_heads: 32, "
        "vocab_size: 32000}\n"
        "optimizer: {accumulate_grad_in_fp32: true, zero_stage: " +
            zero +
            "}\n"
            "tokens: {micro_batch_size: 1, sequence_length: 512}\n",
        with_memory(4, gibibytes));
  };
  EXPECT_THAT(nanotron("0", 80),
              AllOf(HasSubstr("parameters a rank * (2 + 4 + 12) bytes"),
                    HasSubstr("use zero 1 (")));
  EXPECT_THAT(nanotron("1", 80), Not(HasSubstr(kRule)));
  EXPECT_THAT(nanotron("1", 40), HasSubstr("(2 + 4 + 12 / 4) bytes"));
}

// Whether zero 1 is the better choice hangs on what ZeRO++ and "auto" say.
TEST(ZeroAdvice, IsNotGivenWhereOthersDecide) {
  const ForeignContext context = with_model("llama-3-8b", with_memory(64, 80));
  EXPECT_THAT(deepspeed(kBf16 + kAdam + zero("stage: 3"), context),
              HasSubstr("zero 1 fits"));
  const auto not_judged = [&](const std::string& text,
                              const std::string& because) {
    EXPECT_THAT(deepspeed(text, context),
                AllOf(Not(HasSubstr("zero 1 fits")),
                      HasSubstr("not judged: whether zero 1 would be faster: " +
                                because)));
  };
  not_judged(kBf16 + kAdam + zero("stage: 3, zero_hpz_partition_size: 8"),
             "zero_optimization.zero_hpz_partition_size 8 keeps a copy of the "
             "weights");
  not_judged(kBf16 + kAdam + zero("stage: 3, zero_quantized_weights: true"),
             "zero_optimization.zero_quantized_weights sends fewer bytes");
  not_judged("bf16: {enabled: 'auto'}\n" + kAdam + zero("stage: 3"),
             "bf16.enabled is \"auto\"");
  EXPECT_THAT(checked(System::kDeepSpeed,
                      "train_micro_batch_size_per_gpu: auto\n"
                      "gradient_accumulation_steps: auto\n" +
                          kBf16 + zero("stage: 3"),
                      context),
              AllOf(Not(HasSubstr("zero 1 fits")),
                    HasSubstr("gradient_accumulation_steps, "
                              "train_micro_batch_size_per_gpu are \"auto\"")));
}

}  // namespace
}  // namespace triax
