// SPDX-License-Identifier: Apache-2.0
// For each fault that triax check is to find, a config with it and one like it
// without: the first is answered by the rule, the second is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/base/file.h"
#include "triax/check/foreign_check.h"
#include "triax/config/problem.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/model_shapes.h"
#include "triax/foreign/system.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Example {
  const char* fault;
  System system;
  std::string bad;
  std::string good;
  const char* rule;
  const char* words;  // of the message or the fix: the arithmetic, the way out
  int64_t world = 0;
  const char* model = "";
  double network = 0.0;  // bytes per second; with it a host has 8 devices
  const char* reference = "";
  const char* other = "";  // the Megatron-LM arguments of the same run
};

void PrintTo(const Example& example, std::ostream* out) {
  *out << example.fault;
}

ForeignConfig read_as(System system, const std::string& text) {
  return find_system(system)->read(text, "file");
}

std::string said_of(const Example& example, const std::string& text) {
  ForeignContext context;
  if (example.world > 0) {
    context.world = example.world;
  }
  if (*example.model != '\0') {
    context.model = load_model_shape(example.model);
    context.model_file = example.model;
  }
  if (example.network > 0.0) {
    context.link_bytes_per_second = example.network;
    context.ranks_on_host = 8;
    context.device_bytes = int64_t{80} << 30;
  }
  if (*example.reference != '\0') {
    context.reference = find_system(example.system)
                            ->facts(read_as(example.system, example.reference));
  }
  const ForeignConfig config = read_as(example.system, text);
  const ForeignReport report =
      *example.other == '\0'
          ? check_foreign(config, context)
          : check_pair(
                read_as(System::kMegatron, example.other), config, context);
  std::string all;
  for (const Problem& problem : report.problems) {
    if (problem.rule == example.rule) {
      all += to_text(problem) + "\n";
    }
  }
  return all;
}

class RuleExamples : public testing::TestWithParam<Example> {};

TEST_P(RuleExamples, SpeaksOfTheFaultAlone) {
  const Example& example = GetParam();
  EXPECT_THAT(said_of(example, example.bad), HasSubstr(example.words));
  EXPECT_EQ(said_of(example, example.good), "");
}

// {json} of DeepSpeed beside what is needed anyway.
std::string deepspeed(const std::string& more) {
  return "{train_micro_batch_size_per_gpu: 2, gradient_clipping: 1.0, " + more +
         "}";
}

std::string zero(const std::string& more) {
  return deepspeed("zero_optimization: {" + more + "}");
}

std::string megatron(const std::string& more) {
  return "torchrun --nproc_per_node 8 pretrain_gpt.py --hidden-size 4096 "
         "--micro-batch-size 1 --train-iters 1000 --lr 3e-4 --bf16 " +
         more + "\n";
}

const std::string kHeads = "--num-layers 32 --num-attention-heads 32 ";
const std::string kLength = "--seq-length 4096 --max-position-embeddings 4096 ";

INSTANTIATE_TEST_SUITE_P(
    Batch,
    RuleExamples,
    testing::Values(
        Example{"the three sizes contradict each other",
                System::kDeepSpeed,
                deepspeed("train_batch_size: 32, "
                          "gradient_accumulation_steps: 4"),
                deepspeed("train_batch_size: 64, "
                          "gradient_accumulation_steps: 4"),
                "batch-triangle",
                "2 * gradient_accumulation_steps 4 * dp 8 (8 ranks) = 64, not "
                "train_batch_size 32",
                8},
        Example{"dp is the world over tp, pp and cp",
                System::kMegatron,
                megatron(kHeads + kLength +
                         "--tensor-model-parallel-size 2 "
                         "--pipeline-model-parallel-size 2 "
                         "--context-parallel-size 2 --global-batch-size 63"),
                megatron(kHeads + kLength +
                         "--tensor-model-parallel-size 2 "
                         "--pipeline-model-parallel-size 2 "
                         "--context-parallel-size 2 --global-batch-size 64"),
                "batch-triangle",
                "dp 4 (32 ranks / (tp 2 * pp 2 * cp 2)) = 4",
                32},
        Example{"ZeRO counted as an axis beside tp and pp",
                System::kDeepSpeed,
                deepspeed("train_batch_size: 64, "
                          "gradient_accumulation_steps: 4, "
                          "zero_optimization: {stage: 1}"),
                deepspeed("train_batch_size: 16, "
                          "gradient_accumulation_steps: 4, "
                          "zero_optimization: {stage: 1}"),
                "batch-triangle",
                "it counts all 8 ranks as replicas, and ZeRO is no axis of its "
                "own",
                8,
                "",
                0.0,
                "",
                "pretrain_gpt.py --deepspeed --tensor-model-parallel-size 2 "
                "--pipeline-model-parallel-size 2 --micro-batch-size 2"},
        Example{"auto that nobody replaces",
                System::kDeepSpeed,
                deepspeed("steps_per_print: \"auto\""),
                deepspeed("steps_per_print: 10"),
                "auto-value",
                "neither DeepSpeed nor transformers' Trainer replaces"},
        Example{"auto that DeepSpeed alone stops at",
                System::kDeepSpeed,
                "{train_batch_size: \"auto\", gradient_clipping: 1.0}",
                "{train_batch_size: 8, gradient_clipping: 1.0}",
                "auto-value",
                "stops with a TypeError"},
        Example{"the batch changed and the learning rate did not",
                System::kMegatron,
                megatron("--global-batch-size 512"),
                megatron("--global-batch-size 256"),
                "lr-not-scaled",
                "the global batch is 512 and was 256",
                0,
                "",
                0.0,
                "pretrain_gpt.py --global-batch-size 256 --lr 3e-4"}));

INSTANTIATE_TEST_SUITE_P(
    Keys,
    RuleExamples,
    testing::Values(
        Example{"unknown",
                System::kDeepSpeed,
                zero("stage: 1, foo: 1"),
                zero("stage: 1"),
                "unknown-key",
                "there is no such key"},
        Example{"misspelt",
                System::kDeepSpeed,
                deepspeed("zero_optimisation: {stage: 2}"),
                deepspeed("zero_optimization: {stage: 2}"),
                "unknown-key",
                "did you mean zero_optimization?"},
        Example{"misplaced",
                System::kDeepSpeed,
                zero("stage: 1, aio: {block_size: 1048576}"),
                deepspeed("aio: {block_size: 1048576}"),
                "misplaced-key",
                "it belongs at the top level"},
        Example{"a parameter beside its params",
                System::kDeepSpeed,
                deepspeed("optimizer: {type: \"AdamW\", lr: 0.001, params: "
                          "{weight_decay: 0.1}}"),
                deepspeed("optimizer: {type: \"AdamW\", params: "
                          "{lr: 0.001, weight_decay: 0.1}}"),
                "misplaced-key",
                "optimizer.lr: no such key is read, so it does nothing "
                "[ignored]; it belongs in optimizer.params"},
        Example{"an exponent without its sign",
                System::kMegatron,
                megatron("--lr 3e4"),
                megatron("--lr 3e-4"),
                "out-of-range",
                "Adam moves each weight by about 30000"},
        Example{"removed",
                System::kDeepSpeed,
                deepspeed("elasticity: {enabled: false}"),
                deepspeed("data_efficiency: {enabled: false}"),
                "removed-key",
                "gone since 0.19.8"},
        Example{"renamed",
                System::kDeepSpeed,
                zero("stage: 3, stage3_gather_fp16_weights_on_model_save: "
                     "true"),
                zero("stage: 3, stage3_gather_16bit_weights_on_model_save: "
                     "true"),
                "deprecated-key",
                "use zero_optimization.stage3_gather_16bit_weights"},
        Example{"silently ignored",
                System::kDeepSpeed,
                deepspeed("aio: {thread_count: 4}"),
                deepspeed("aio: {intra_op_parallelism: 4}"),
                "ignored-key",
                "use aio.intra_op_parallelism"},
        Example{"a changed default",
                System::kDeepSpeed,
                "{train_micro_batch_size_per_gpu: 2}",
                "{train_micro_batch_size_per_gpu: 2, gradient_clipping: 1.0}",
                "default-changed",
                "clips gradients at 1.0 since 0.19.3"},
        Example{"bf16 and fp16",
                System::kDeepSpeed,
                deepspeed("bf16: {enabled: true}, fp16: {enabled: true}"),
                deepspeed("bf16: {enabled: true}, fp16: {enabled: false}"),
                "precision-conflict",
                "both enabled"},
        Example{"a loss scale under bf16",
                System::kDeepSpeed,
                deepspeed("bf16: {enabled: true}, fp16: {enabled: false, "
                          "loss_scale: 128}"),
                deepspeed("fp16: {enabled: true, loss_scale: 128}"),
                "no-effect",
                "bf16 trains without a loss scale"},
        Example{"a stage that does not offload parameters",
                System::kDeepSpeed,
                zero("stage: 2, offload_param: {device: \"cpu\"}"),
                zero("stage: 3, offload_param: {device: \"cpu\"}"),
                "offload-no-effect",
                "parameter offload needs stage 3, and the stage is 2"},
        Example{"offload to a drive without its path",
                System::kDeepSpeed,
                zero("stage: 3, offload_param: {device: \"nvme\"}"),
                zero("stage: 3, offload_param: {device: \"nvme\", nvme_path: "
                     "\"/local\"}"),
                "refused-combination",
                "needs nvme_path"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes,
    RuleExamples,
    testing::Values(
        Example{"heads",
                System::kTorchTitan,
                "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
                "tensor_parallel_degree = 3\n",
                "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
                "tensor_parallel_degree = 4\n",
                "heads-divide",
                "32 attention heads do not split over tp 3"},
        Example{"KV heads",
                System::kNanotron,
                "model: {model_config: {is_llama_config: true, hidden_size: "
                "48, num_attention_heads: 12, num_key_value_heads: 3}}\n"
                "parallelism: {tp: 4, pp: 1, dp: 1}\n",
                "model: {model_config: {is_llama_config: true, hidden_size: "
                "48, num_attention_heads: 12, num_key_value_heads: 4}}\n"
                "parallelism: {tp: 4, pp: 1, dp: 1}\n",
                "kv-heads-divide",
                "3 KV heads"},
        Example{"vocabulary",
                System::kMegatron,
                megatron(kHeads + "--tensor-model-parallel-size 2 "
                                  "--no-pad-vocab-size --vocab-size 32001"),
                megatron(kHeads + "--tensor-model-parallel-size 2 "
                                  "--no-pad-vocab-size --vocab-size 32000"),
                "heads-divide",
                "32001"},
        Example{"layers",
                System::kMegatron,
                megatron(kHeads + "--pipeline-model-parallel-size 3"),
                megatron(kHeads + "--pipeline-model-parallel-size 4"),
                "stages-fit",
                "32 layers do not split over 3 stages"},
        Example{"chunks",
                System::kMegatron,
                megatron(kHeads + "--pipeline-model-parallel-size 4 "
                                  "--num-layers-per-virtual-pipeline-stage 3"),
                megatron(kHeads + "--pipeline-model-parallel-size 4 "
                                  "--num-layers-per-virtual-pipeline-stage 4"),
                "virtual-stages",
                "= 8 layers, which do not split into chunks of 3"},
        Example{"the sequence",
                System::kMegatron,
                megatron(kHeads + "--context-parallel-size 8 --seq-length 4104 "
                                  "--max-position-embeddings 8192"),
                megatron(kHeads + "--context-parallel-size 8 --seq-length 4096 "
                                  "--max-position-embeddings 8192"),
                "sequence-too-long",
                "4104 tokens do not split into 16 parts"},
        Example{"a sequence longer than the positions",
                System::kMegatron,
                megatron(kHeads + "--seq-length 8192 "
                                  "--max-position-embeddings 4096"),
                megatron(kHeads + "--seq-length 4096 "
                                  "--max-position-embeddings 4096"),
                "sequence-too-long",
                "the model has 4096 positions"},
        Example{"a world that does not factor",
                System::kTorchTitan,
                "[parallelism]\ntensor_parallel_degree = 2\n"
                "pipeline_parallel_degree = 2\n",
                "[parallelism]\ntensor_parallel_degree = 2\n"
                "pipeline_parallel_degree = 3\n",
                "world-size",
                "6 ranks do not split over tp 2 * pp 2 * cp 1 = 4",
                6},
        Example{"a world smaller than the layout",
                System::kMegatron,
                megatron(kHeads + "--tensor-model-parallel-size 4 "
                                  "--pipeline-model-parallel-size 4"),
                megatron(kHeads + "--tensor-model-parallel-size 4 "
                                  "--pipeline-model-parallel-size 2"),
                "world-size",
                "8 ranks cannot hold tp 4 * pp 4 * cp 1 = 16",
                8},
        Example{"the slowest of uneven stages",
                System::kMegatron,
                megatron(kHeads + "--pipeline-model-parallel-size 4 "
                                  "--decoder-last-pipeline-num-layers 14"),
                megatron(kHeads + "--pipeline-model-parallel-size 4 "
                                  "--decoder-last-pipeline-num-layers 8"),
                "stages-fit",
                "stage 4 of 4 is the slowest, with 14 layers (the stages have "
                "6, 6, 6, 14): every step waits for it, and 43 % of the "
                "stages' time is lost"},
        Example{"the slowest of listed stages",
                System::kMegatron,
                megatron("--num-layers 8 --num-attention-heads 32 "
                         "--pipeline-model-parallel-size 2 "
                         "--pipeline-model-parallel-layout \"Etttttt|ttL\""),
                megatron("--num-layers 8 --num-attention-heads 32 "
                         "--pipeline-model-parallel-size 2 "
                         "--pipeline-model-parallel-layout \"Etttt|ttttL\""),
                "stages-fit",
                "stage 1 of 2 is the slowest, with 6 layers"},
        Example{"the slowest of listed parts",
                System::kTorchTitan,
                "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n"
                "[training]\nlocal_batch_size = 8\n[parallelism]\n"
                "pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = "
                "[[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", "
                "\"layers.2\", \"layers.3\", \"layers.4\", \"layers.5\", "
                "\"norm\", \"output\"]]\n",
                "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n"
                "[training]\nlocal_batch_size = 8\n[parallelism]\n"
                "pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = "
                "[[\"tok_embeddings\", \"layers.0\", \"layers.1\", "
                "\"layers.2\"], [\"layers.3\", \"layers.4\", "
                "\"layers.5\", \"norm\", \"output\"]]\n",
                "stages-fit",
                "stage 2 of 2 is the slowest"}));

const std::string kZeroThree = deepspeed(
    "bf16: {enabled: true}, gradient_accumulation_steps: 8, "
    "zero_optimization: {stage: 3}");
const std::string kZeroOne = deepspeed(
    "bf16: {enabled: true}, gradient_accumulation_steps: 8, "
    "zero_optimization: {stage: 1}");

INSTANTIATE_TEST_SUITE_P(
    Choices,
    RuleExamples,
    testing::Values(
        Example{"tp across hosts",
                System::kMegatron,
                megatron(kHeads + "--tensor-model-parallel-size 16"),
                megatron(kHeads + "--tensor-model-parallel-size 8"),
                "tp-crosses-hosts",
                "tp 16 does not fit into hosts of 8 devices",
                32,
                "",
                50e9},
        Example{"a zero stage too high for the network",
                System::kDeepSpeed,
                kZeroThree,
                kZeroOne,
                "slow-choice",
                "where zero 1 sends 29.9 GiB in 642 ms",
                32,
                "llama-3-8b",
                50e9},
        Example{"zero 3 where zero 1 fits",
                System::kDeepSpeed,
                kZeroThree,
                kZeroOne,
                "slow-choice",
                "zero 1 fits: 8,029,995,008 parameters a rank * (4 + 12 / dp "
                "32) bytes = 32.7 GiB of 80.0 GiB",
                32,
                "llama-3-8b",
                50e9},
        Example{"zero 3 where zero 1 does not fit",
                System::kDeepSpeed,
                deepspeed("bf16: {enabled: true}, zero_optimization: {stage: "
                          "3, reduce_bucket_size: 900000000000}"),
                kZeroThree,
                "slow-choice",
                "reduce_bucket_size",
                32,
                "llama-3-70b",
                50e9},
        Example{"recompute where memory is free",
                System::kMegatron,
                megatron(kHeads + kLength +
                         "--global-batch-size 64 --use-distributed-optimizer "
                         "--no-overlap-p2p-communication "
                         "--recompute-granularity full --recompute-method "
                         "uniform --recompute-num-layers 1"),
                megatron(kHeads + kLength +
                         "--global-batch-size 64 --use-distributed-optimizer "
                         "--no-overlap-p2p-communication "
                         "--recompute-granularity selective"),
                "slow-choice",
                "memory is free without full recompute",
                32,
                "llama-3-8b",
                50e9},
        Example{"too few microbatches for the pipeline",
                System::kMegatron,
                megatron(kHeads + "--pipeline-model-parallel-size 8 "
                                  "--global-batch-size 16"),
                megatron(kHeads + "--pipeline-model-parallel-size 8 "
                                  "--global-batch-size 256"),
                "few-microbatches",
                "4 microbatches over 8 stages: (p - 1) / (m v + p - 1) = 64 %",
                32},
        Example{"buckets larger than the model",
                System::kDeepSpeed,
                zero("stage: 1, reduce_bucket_size: 500000000"),
                zero("stage: 1, reduce_bucket_size: 10000000"),
                "slow-choice",
                "holds all 123,532,032 gradients",
                32,
                "gpt2",
                50e9},
        Example{"a long run that is never profiled",
                System::kMegatron,
                megatron("--train-iters 500000"),
                megatron("--train-iters 500000 --profile"),
                "slow-choice",
                "500,000 steps and no step of them is profiled"}));

INSTANTIATE_TEST_SUITE_P(
    Systems,
    RuleExamples,
    testing::Values(
        Example{"DeepSpeed's pipeline with zero 2",
                System::kDeepSpeed,
                zero("stage: 2"),
                zero("stage: 1"),
                "pipeline-zero",
                "asserts a stage below 2",
                8,
                "",
                0.0,
                "",
                "pretrain_gpt.py --deepspeed --pipeline-model-parallel-size 2"},
        Example{"what Megatron-LM asserts",
                System::kMegatron,
                megatron(kHeads + "--overlap-param-gather "
                                  "--use-distributed-optimizer"),
                megatron(kHeads + "--overlap-param-gather "
                                  "--use-distributed-optimizer "
                                  "--overlap-grad-reduce"),
                "refused-combination",
                "--overlap-grad-reduce"}));

std::string whole(const std::string& more) {
  return megatron(kHeads + kLength + more);
}

std::string titan(const std::string& more) {
  return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more;
}

// A nanotron run of 64 elements in 4 heads, with one line replaced.
std::string nano(const std::string& line) {
  std::string text = read_file(
      TRIAX_SOURCE_DIR "/tests/cases/nanotron/no_clipping.yaml", 1 << 20);
  const std::string key = line.substr(0, line.find(':') + 1);
  const size_t at = text.find("\n" + key) + 1;
  text.replace(at, text.find('\n', at) - at, line);
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Strangers,
    RuleExamples,
    testing::Values(
        Example{"no data",
                System::kMegatron,
                whole("--tokenizer-type NullTokenizer --vocab-size 9"),
                whole("--tokenizer-type NullTokenizer --vocab-size 9 "
                      "--data-path text_document"),
                "missing-argument",
                "there are no data: none of --data-path"},
        Example{"a tokenizer without its model",
                System::kMegatron,
                whole("--mock-data --tokenizer-type HuggingFaceTokenizer"),
                whole("--mock-data --tokenizer-type HuggingFaceTokenizer "
                      "--tokenizer-model gpt2"),
                "missing-argument",
                "is made from --tokenizer-model, which is not given"},
        Example{"GPT-2's tokenizer without its merges",
                System::kMegatron,
                whole("--mock-data --vocab-file v.json"),
                whole("--mock-data --vocab-file v.json --merge-file m.txt"),
                "missing-argument",
                "without --merge-file Megatron-LM downloads GPT-2's"},
        Example{"a head of odd size in Megatron-LM",
                System::kMegatron,
                whole("--position-embedding-type rope --kv-channels 63"),
                whole("--position-embedding-type rope --kv-channels 64"),
                "head-dim-odd",
                "RoPE turns pairs of a head's elements, and 63 are odd"},
        Example{"an odd part of MLA's heads",
                System::kMegatron,
                whole("--position-embedding-type rope --kv-channels 63 "
                      "--multi-latent-attention --qk-pos-emb-head-dim 33"),
                whole("--position-embedding-type rope --kv-channels 63 "
                      "--multi-latent-attention"),
                "head-dim-odd",
                "33 are odd"},
        Example{"an odd quotient, without RoPE it is none",
                System::kMegatron,
                megatron("--num-attention-heads 4096 --num-layers 2 "
                         "--position-embedding-type rope"),
                megatron("--num-attention-heads 4096 --num-layers 2"),
                "head-dim-odd",
                "hidden-size 4096 / num-attention-heads 4096 = 1 elements a "
                "head"},
        Example{"a head of odd size in nanotron",
                System::kNanotron,
                nano("    hidden_size: 12"),
                nano("    hidden_size: 24"),
                "head-dim-odd",
                "hidden_size 12 / num_attention_heads 4 = 3 elements a head"},
        Example{"nanotron's stages by their costs",
                System::kNanotron,
                nano("    num_hidden_layers: 3"),
                nano("    num_hidden_layers: 30"),
                "stages-fit",
                "stage 1 of 2 is the slowest, with 3 layers (the stages have "
                "3, 0)"},
        Example{"DeepSpeed's stages",
                System::kMegatron,
                "deepspeed pretrain_gpt.py --deepspeed --num-layers 26 "
                "--pipeline-model-parallel-size 4\n",
                "deepspeed pretrain_gpt.py --deepspeed --num-layers 28 "
                "--pipeline-model-parallel-size 4\n",
                "stages-fit",
                "26 layers over 4 stages: stages 1 to 2 have 7 layers and the "
                "others 6"},
        Example{"DeepSpeed's slowest stage",
                System::kMegatron,
                "deepspeed pretrain_gpt.py --deepspeed --num-layers 5 "
                "--pipeline-model-parallel-size 4\n",
                "deepspeed pretrain_gpt.py --deepspeed --num-layers 4 "
                "--pipeline-model-parallel-size 4\n",
                "stages-fit",
                "stage 1 of 4 is the slowest, with 2 layers (the stages have "
                "2, 1, 1, 1)"},
        Example{"texts without a tokenizer",
                System::kNanotron,
                nano("  tokenizer_name_or_path: null"),
                nano("  tokenizer_name_or_path: gpt2"),
                "missing-key",
                "the data are texts (hf_dataset_or_datasets), and there is no "
                "tokenizer"},
        Example{"an interval of no steps",
                System::kNanotron,
                nano("  iteration_step_info_interval: 0"),
                nano("  iteration_step_info_interval: 1"),
                "out-of-range",
                "0 must be at least 1"},
        Example{"an interval of a validation that is none",
                System::kNanotron,
                nano("  val_check_interval: 0"),
                nano("  val_check_interval: -1"),
                "ignored-key",
                "0 is no interval, and nanotron's trainer has no validation"},
        Example{"an unknown data set",
                System::kTorchTitan,
                titan("[training]\ndataset = \"wikitext\"\n"),
                titan("[training]\ndataset = \"C4\"\n"),
                "unknown-value",
                "\"wikitext\" is none of c4, c4_test, c4_validation"},
        Example{"a misspelt data set for the validation",
                System::kTorchTitan,
                titan("[validation]\nenable = true\nsteps = 5\n"
                      "dataset = \"c4_validatoin\"\n"),
                titan("[validation]\nsteps = 5\ndataset = \"x\"\n"),
                "unknown-value",
                "did you mean \"c4_validation\"?"},
        Example{"no shards",
                System::kTorchTitan,
                titan("[parallelism]\ndata_parallel_shard_degree = 0\n"),
                titan("[parallelism]\ndata_parallel_shard_degree = -1\n"),
                "out-of-range",
                "0 is no degree"},
        Example{"an unknown part to compile",
                System::kTorchTitan,
                titan("[compile]\nenable = true\n"
                      "components = [\"model\", \"optimizer\"]\n"),
                titan("[compile]\nenable = true\n"
                      "components = [\"model\", \"loss\"]\n"),
                "unknown-value",
                "\"optimizer\" is neither \"model\" nor \"loss\""}));

TEST(MegatronCommandLine, LacksWhatItsOwnChecksAskFor) {
  const auto missing = [](const ForeignReport& report) {
    std::string all;
    for (const Problem& problem : report.problems) {
      if (problem.rule == "missing-argument" &&
          problem.severity == Severity::kError) {
        all += problem.field + " ";
      }
    }
    return all;
  };
  const std::string all =
      "micro-batch-size hidden-size num-attention-heads "
      "max-position-embeddings seq-length train-iters lr data-path ";
  const ForeignConfig words = read_megatron_words({"--num-layers", "24"});
  EXPECT_EQ(missing(check_foreign(words, {})), all);
  EXPECT_EQ(
      missing(check_foreign(
          read_megatron_words({"pretrain_gpt.py", "--num-layers", "24"}), {})),
      all);
  // Another program may set them itself.
  EXPECT_EQ(missing(check_foreign(
                read_megatron_words({"mine.py", "--num-layers", "24"}), {})),
            "");
  // Of a pair, the arguments that the JSON is to be compared with.
  EXPECT_EQ(missing(check_pair(
                words, read_as(System::kDeepSpeed, deepspeed("")), {})),
            "");
  // A file of arguments may be a part of what is given.
  const ForeignReport part = check_foreign(
      read_as(System::kMegatron, "--num-layers 24\n--hidden-size 64\n"), {});
  EXPECT_EQ(missing(part), "");
  ASSERT_EQ(part.unjudged.size(), 1u);
  EXPECT_THAT(part.unjudged[0],
              HasSubstr("--num-attention-heads, --max-position-embeddings"));
}

}  // namespace
}  // namespace triax
