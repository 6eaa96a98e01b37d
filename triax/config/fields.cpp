// SPDX-License-Identifier: Apache-2.0
#include "triax/config/fields.h"

#include "triax/config/special_fields.h"

namespace triax {
namespace {

template <auto Section, auto Value>
constexpr auto bind() {
  return +[](RunConfig& config) { return &(config.*Section.*Value); };
}

template <auto Section, auto Value>
constexpr EnumMember bind_enum() {
  return {[](const RunConfig& config) {
            return static_cast<int>(config.*Section.*Value);
          },
          [](RunConfig& config, int value) {
            auto& member = config.*Section.*Value;
            member =
                static_cast<std::remove_reference_t<decltype(member)>>(value);
          }};
}

template <auto Value>
constexpr auto model() {
  return bind<&RunConfig::model, Value>();
}
template <auto Value>
constexpr auto rope() {
  return +[](RunConfig& config) { return &(config.model.rope_scaling.*Value); };
}
template <auto Value>
constexpr auto data() {
  return bind<&RunConfig::data, Value>();
}
template <auto Value>
constexpr auto parallel() {
  return bind<&RunConfig::parallel, Value>();
}
template <auto Value>
constexpr auto training() {
  return bind<&RunConfig::training, Value>();
}
template <auto Value>
constexpr auto optimizer() {
  return bind<&RunConfig::optimizer, Value>();
}

using Model = ModelConfig;
using Data = DataConfig;
using Parallel = ParallelConfig;
using Training = TrainingConfig;
using Optimizer = OptimizerConfig;

// Upper bounds keep every product of sizes within 63 bits.
constexpr double kMaxWidth = 1 << 18;
constexpr double kMaxCount = 1LL << 40;
constexpr Bounds kWidth = {.min = 1, .max = kMaxWidth};
constexpr Bounds kCount = {.min = 1, .max = kMaxCount};
constexpr Bounds kCountOrZero = {.min = 0, .max = kMaxCount};
constexpr Bounds kDegree = {.min = 1, .max = 1 << 16};
constexpr Bounds kNotNegative = {.min = 0};
constexpr Bounds kPositive = {.min = 0, .is_min_excluded = true};
constexpr Bounds kProbability = {.min = 0, .max = 1, .is_max_excluded = true};

constexpr std::string_view kMoe =
    "mixture of experts is not offered; a model with experts is refused, "
    "never run or priced as a dense one";
constexpr std::string_view kLora =
    "adapters (LoRA) are not offered; train the whole model, or some of it "
    "with optimizer.freeze";

std::vector<Field> model_fields() {
  return {
      {.key = "model.family",
       .member = bind_enum<&RunConfig::model, &Model::family>(),
       .help = "the architecture",
       .choices = {"llama", "gpt2"}},
      {.key = "model.hf",
       .member = model<&Model::hf>(),
       .help =
           "a Hugging Face config.json, or the folder that holds one; stands "
           "in for the section, and keys beside it win over it",
       .derived = "the keys of this section"},
      {.key = "model.hidden_size",
       .member = model<&Model::hidden_size>(),
       .help = "width of the residual stream",
       .bounds = kWidth},
      {.key = "model.intermediate_size",
       .member = model<&Model::intermediate_size>(),
       .help = "width inside the feed-forward block",
       .bounds = {.min = 1, .max = 4 * kMaxWidth},
       .derived = "4 * hidden_size"},
      {.key = "model.num_hidden_layers",
       .member = model<&Model::num_hidden_layers>(),
       .help = "transformer blocks",
       .bounds = {.min = 1, .max = 10000}},
      {.key = "model.num_attention_heads",
       .member = model<&Model::num_attention_heads>(),
       .help = "query heads",
       .bounds = {.min = 1, .max = 4096}},
      {.key = "model.num_key_value_heads",
       .member = model<&Model::num_key_value_heads>(),
       .help = "key and value heads (grouped-query attention)",
       .bounds = {.min = 1, .max = 4096},
       .derived = "num_attention_heads"},
      {.key = "model.head_dim",
       .member = model<&Model::head_dim>(),
       .help = "width of one head",
       .bounds = kWidth,
       .derived = "hidden_size / num_attention_heads"},
      {.key = "model.vocab_size",
       .member = model<&Model::vocab_size>(),
       .help = "rows of the embedding and of the head",
       .bounds = {.min = 1, .max = 1 << 28}},
      {.key = "model.max_position_embeddings",
       .member = model<&Model::max_position_embeddings>(),
       .help = "the longest sequence; gpt2 has one learned row for each",
       .bounds = {.min = 1, .max = 1 << 28}},
      {.key = "model.tie_word_embeddings",
       .member = model<&Model::tie_word_embeddings>(),
       .help = "the head uses the embedding's weight",
       .derived = "true for gpt2, false for llama"},
      {.key = "model.norm_eps",
       .member = model<&Model::norm_eps>(),
       .help = "added to the variance in the norms",
       .bounds = kPositive,
       .derived = "1e-6 for llama, 1e-5 for gpt2"},
      {.key = "model.rope_theta",
       .member = model<&Model::rope_theta>(),
       .help = "base of the rotary angles (llama)",
       .bounds = kPositive},
      {.key = "model.initializer_range",
       .member = model<&Model::initializer_range>(),
       .help = "standard deviation of the initial weights",
       .bounds = kNotNegative},
      {.key = "model.resid_pdrop",
       .member = model<&Model::resid_pdrop>(),
       .help = "dropout of what a block adds to the residual stream",
       .bounds = kProbability},
      {.key = "model.embd_pdrop",
       .member = model<&Model::embd_pdrop>(),
       .help = "dropout of the embedding",
       .bounds = kProbability},
      {.key = "model.attn_pdrop",
       .member = model<&Model::attn_pdrop>(),
       .help = "dropout of the attention weights",
       .bounds = kProbability},
      {.key = "model.num_experts", .help = kMoe, .refused_by = "no-experts"},
      {.key = "model.num_local_experts",
       .help = kMoe,
       .refused_by = "no-experts"},
      {.key = "model.num_experts_per_tok",
       .help = kMoe,
       .refused_by = "no-experts"},
      {.key = "model.moe_*", .help = kMoe, .refused_by = "no-experts"},
      {.key = "model.lora_*", .help = kLora, .refused_by = "no-adapters"},
      {.key = "model.rope_scaling.type",
       .member = rope<&RopeScaling::type>(),
       .help = "how the rotary angles are scaled (llama)",
       .choices = {"default", "llama3"},
       .later = {"linear", "dynamic", "yarn", "longrope"}},
      {.key = "model.rope_scaling.factor",
       .member = rope<&RopeScaling::factor>(),
       .help = "llama3: how much the long wavelengths are stretched",
       .bounds = {.min = 1}},
      {.key = "model.rope_scaling.low_freq_factor",
       .member = rope<&RopeScaling::low_freq_factor>(),
       .help = "llama3: wavelengths over original / this are stretched in full",
       .bounds = kPositive},
      {.key = "model.rope_scaling.high_freq_factor",
       .member = rope<&RopeScaling::high_freq_factor>(),
       .help = "llama3: wavelengths under original / this stay",
       .bounds = kPositive},
      {.key = "model.rope_scaling.original_max_position_embeddings",
       .member = rope<&RopeScaling::original_max_position_embeddings>(),
       .help = "llama3: the sequence length before scaling",
       .bounds = kCount},
  };
}

std::vector<Field> data_fields() {
  return {
      {.key = "data.path",
       .member = data<&Data::path>(),
       .help = "a text file, or the prefix of Megatron's PREFIX.bin and "
               "PREFIX.idx",
       .derived = "none: a run needs one"},
      {.key = "data.tokenizer",
       .member = data<&Data::tokenizer>(),
       .help = "what turns text into tokens: bytes (or, later, a folder with "
               "tokenizer.json)",
       .is_default_only = true},
      {.key = "data.sequence_length",
       .member = data<&Data::sequence_length>(),
       .help = "tokens of one sequence",
       .bounds = {.min = 1, .max = 1 << 24}},
      {.key = "data.validation",
       .member = validation_member(),
       .help =
           "the share of the tokens at the end that validates, or a file of "
           "its own"},
      {.key = "data.mask_document_ends",
       .member = data<&Data::mask_document_ends>(),
       .help = "the token after the end of a document is no target"},
  };
}

std::vector<Field> parallel_fields() {
  return {
      {.key = "parallel.tp",
       .member = parallel<&Parallel::tp>(),
       .help = "tensor-parallel ranks: they split each layer",
       .bounds = kDegree},
      {.key = "parallel.pp",
       .member = parallel<&Parallel::pp>(),
       .help = "pipeline stages: they split the stack of layers",
       .bounds = kDegree},
      {.key = "parallel.dp",
       .member = parallel<&Parallel::dp>(),
       .help = "data-parallel replicas: they split the batch",
       .bounds = kDegree,
       .derived = "ranks / (tp * pp) with --ranks or another launcher, else 1"},
      {.key = "parallel.order",
       .member = parallel<&Parallel::order>(),
       .help = "which axis has neighbouring ranks, innermost first",
       .choices = {"tp-pp-dp",
                   "tp-dp-pp",
                   "pp-tp-dp",
                   "pp-dp-tp",
                   "dp-tp-pp",
                   "dp-pp-tp"}},
      {.key = "parallel.schedule",
       .member = parallel<&Parallel::schedule>(),
       .help = "in which order a stage runs its microbatches",
       .choices = {"gpipe", "1f1b"},
       .later = {"interleaved", "zero_bubble", "pipedream"}},
      {.key = "parallel.chunks",
       .member = parallel<&Parallel::chunks>(),
       .help = "virtual stages of a rank (interleaved)",
       .bounds = kDegree,
       .is_default_only = true},
      {.key = "parallel.stages",
       .member = stages_member(),
       .help = "layers of each stage, or \"auto\": as even as they go"},
      {.key = "parallel.weigh_embedding_and_head",
       .member = parallel<&Parallel::weigh_embedding_and_head>(),
       .help = "stages = \"auto\" counts the embedding and the head too, by "
               "their parameters"},
      {.key = "parallel.zero",
       .member = parallel<&Parallel::zero>(),
       .help = "ZeRO stage: what replicas split (1 optimizer, 2 gradients, 3 "
               "parameters)",
       .bounds = {.min = 0, .max = 3}},
      {.key = "parallel.zero_group",
       .member = parallel<&Parallel::zero_group>(),
       .help = "neighbouring replicas that share ZeRO's shards, if fewer than "
               "dp; their groups hold copies",
       .bounds = kDegree,
       .derived = "dp"},
      {.key = "parallel.reshard_after_forward",
       .member = parallel<&Parallel::reshard_after_forward>(),
       .help = "zero 3: free a unit's parameters after its forward and gather "
               "them again for its backward; false: keep them until the step's "
               "last backward"},
      {.key = "parallel.prefetch",
       .member = parallel<&Parallel::prefetch>(),
       .help = "zero 3: units whose parameters are gathered ahead of their use",
       .bounds = {.min = 0, .max = 64}},
      {.key = "parallel.sequence_parallel",
       .member = parallel<&Parallel::sequence_parallel>(),
       .help = "tensor-parallel ranks split the residual stream and the norms "
               "by the sequence"},
      {.key = "parallel.bucket_bytes",
       .member = parallel<&Parallel::bucket_bytes>(),
       .help = "gradients that replicas sum in one operation",
       .bounds = {.min = 1, .max = 1LL << 40},
       .unit = Unit::kBytes},
      {.key = "parallel.reduce_dtype",
       .member = bind_enum<&RunConfig::parallel, &Parallel::reduce_dtype>(),
       .help = "the type in which replicas send gradients to be summed",
       .choices = {"gradients", "bf16", "fp16"}},
      {.key = "parallel.cp", .help = "context-parallel ranks"},
  };
}

std::vector<Field> training_fields() {
  return {
      {.key = "training.global_batch_size",
       .member = training<&Training::global_batch_size>(),
       .help = "sequences of one step = microbatch_size * "
               "gradient_accumulation_steps * dp",
       .bounds = {.min = 1, .max = kMaxBatchSize},
       .derived = "microbatch_size * gradient_accumulation_steps * dp"},
      {.key = "training.microbatch_size",
       .member = training<&Training::microbatch_size>(),
       .help = "sequences that pass through the model at once",
       .bounds = {.min = 1, .max = kMaxWidth}},
      {.key = "training.gradient_accumulation_steps",
       .member = training<&Training::gradient_accumulation_steps>(),
       .help = "microbatches of a replica in one step",
       .bounds = {.min = 1, .max = kMaxWidth},
       .derived = "global_batch_size / (microbatch_size * dp), or 1"},
      {.key = "training.steps",
       .member = training<&Training::steps>(),
       .help = "optimizer steps",
       .bounds = kCount},
      {.key = "training.precision",
       .member = bind_enum<&RunConfig::training, &Training::precision>(),
       .help = "fp64, fp32, bf16 matrix products over fp32 weights "
               "(bf16_autocast), or the model in bf16 or fp16 with its master "
               "weights and gradients in fp32",
       .choices = {"fp64", "fp32", "bf16_autocast", "bf16", "fp16"}},
      {.key = "training.initial_loss_scale",
       .member = training<&Training::initial_loss_scale>(),
       .help = "fp16: what the loss is multiplied with at first",
       .bounds = {.min = 1, .max = 4294967296.0}},
      {.key = "training.min_loss_scale",
       .member = training<&Training::min_loss_scale>(),
       .help = "fp16: the run fails when gradients overflow at this loss scale",
       .bounds = {.min = 0, .max = 4294967296.0, .is_min_excluded = true}},
      {.key = "training.loss_scale_window",
       .member = training<&Training::loss_scale_window>(),
       .help = "fp16: steps without an overflow after which the loss scale "
               "doubles",
       .bounds = kCount},
      {.key = "training.validate_every",
       .member = training<&Training::validate_every>(),
       .help = "steps between two validations; 0: never",
       .bounds = kCountOrZero},
      {.key = "training.validation_batches",
       .member = training<&Training::validation_batches>(),
       .help = "global batches of one validation; 0: all there are",
       .bounds = kCountOrZero},
      {.key = "training.gradient_clipping",
       .member = training<&Training::gradient_clipping>(),
       .help = "the largest norm of all gradients together; 0: off",
       .bounds = kNotNegative},
      {.key = "training.label_smoothing",
       .member = training<&Training::label_smoothing>(),
       .help = "share of the target spread over the whole vocabulary",
       .bounds = kProbability},
      {.key = "training.z_loss",
       .member = training<&Training::z_loss>(),
       .help = "weight of the squared log of the softmax's denominator",
       .bounds = kNotNegative},
      {.key = "training.seed",
       .member = training<&Training::seed>(),
       .help = "of the weights, the sampling and the dropout",
       .bounds = {.min = 0, .max = 9007199254740992.0}},
      {.key = "training.invariants",
       .help = "checks between steps that ranks agree"},
      {.key = "training.rampup_batch_size",
       .help = "batch-size ramps are not offered; give one global_batch_size",
       .refused_by = "no-batch-ramp"},
  };
}

std::vector<Field> optimizer_fields() {
  return {
      {.key = "optimizer.name",
       .member = optimizer<&Optimizer::name>(),
       .help = "the update rule",
       .choices = {"adamw", "sgd"}},
      {.key = "optimizer.lr",
       .member = optimizer<&Optimizer::lr>(),
       .help = "the highest learning rate",
       .bounds = kNotNegative},
      {.key = "optimizer.min_lr",
       .member = optimizer<&Optimizer::min_lr>(),
       .help = "where the schedule ends",
       .bounds = kNotNegative},
      {.key = "optimizer.betas",
       .member = optimizer<&Optimizer::betas>(),
       .help = "adamw: decay of the two averages",
       .bounds = kProbability,
       .list_length = 2},
      {.key = "optimizer.eps",
       .member = optimizer<&Optimizer::eps>(),
       .help = "adamw: added to the root of the second average; with 0 what "
               "has no gradient, such as padding, would become NaN",
       .bounds = {.min = 1e-30}},
      {.key = "optimizer.momentum",
       .member = optimizer<&Optimizer::momentum>(),
       .help = "sgd: decay of the running gradient",
       .bounds = kProbability},
      {.key = "optimizer.weight_decay",
       .member = optimizer<&Optimizer::weight_decay>(),
       .help =
           "share of a weight that lr takes away in a step; norms and biases "
           "lose none",
       .bounds = kNotNegative},
      {.key = "optimizer.schedule",
       .member = optimizer<&Optimizer::schedule>(),
       .help = "how lr falls after the warm-up (wsd: constant, then a decay)",
       .choices = {"constant", "cosine", "linear", "wsd"}},
      {.key = "optimizer.warmup_steps",
       .member = optimizer<&Optimizer::warmup_steps>(),
       .help = "steps in which lr rises from 0",
       .bounds = kCountOrZero},
      {.key = "optimizer.decay_steps",
       .member = optimizer<&Optimizer::decay_steps>(),
       .help = "wsd: the last steps, in which lr falls",
       .bounds = kCount,
       .derived = "a tenth of training.steps"},
      {.key = "optimizer.freeze",
       .member = optimizer<&Optimizer::freeze>(),
       .help =
           "patterns (* and ?) of the names of parameters that stay as they "
           "are"},
      {.key = "optimizer.group",
       .member = group_member(),
       .help = "parameters that fit pattern get lr or weight_decay of their "
               "own: [[optimizer.group]] with pattern, and lr, weight_decay or "
               "both; where several fit, the last one counts"},
  };
}

constexpr const char* kAxes[] = {"dp", "tp", "pp"};

template <int Axis, auto Value>
constexpr auto link() {
  return +[](RunConfig& config) {
    return &(config.comm.emulate[kAxes[Axis]].*Value);
  };
}

struct LinkKeys {
  std::string_view latency, bandwidth, jitter;
};

template <int Axis>
void add_link(std::vector<Field>& rows, const LinkKeys& keys) {
  rows.push_back({.key = keys.latency,
                  .member = link<Axis, &EmulatedLink::latency_seconds>(),
                  .help = "what a message on this axis is made to wait",
                  .bounds = {.min = 0, .max = 3600},
                  .unit = Unit::kSeconds});
  rows.push_back({.key = keys.bandwidth,
                  .member = link<Axis, &EmulatedLink::bytes_per_second>(),
                  .help = "what this axis is made to carry; 0: no limit",
                  .bounds = kNotNegative,
                  .unit = Unit::kBytesPerSecond});
  rows.push_back(
      {.key = keys.jitter,
       .member = link<Axis, &EmulatedLink::jitter>(),
       .help = "share of an operation's cost that is added at random",
       .bounds = {.min = 0, .max = 1}});
}

std::vector<Field> memory_and_comm_fields() {
  std::vector<Field> rows = {
      {.key = "memory.recompute",
       .member = bind_enum<&RunConfig::memory, &MemoryConfig::recompute>(),
       .help = "what backward computes again instead of keeping it: what is "
               "cheap (selective), whole layers (full), groups of them "
               "(every_k)",
       .choices = {"none", "selective", "full", "every_k"}},
      {.key = "memory.recompute_layers",
       .member = bind<&RunConfig::memory, &MemoryConfig::recompute_layers>(),
       .help = "layers of a group whose input alone is kept (every_k)",
       .bounds = kCount},
      {.key = "memory.offload",
       .member = bind_enum<&RunConfig::memory, &MemoryConfig::offload>(),
       .help = "where offload_states lie between their uses: on a CPU device "
               "host moves nothing; nvme is files",
       .choices = {"none", "host", "nvme"}},
      {.key = "memory.offload_states",
       .member = bind<&RunConfig::memory, &MemoryConfig::offload_states>(),
       .help = "what moves out: optimizer (its state and the master weights), "
               "gradients (zero 2), parameters (zero 3), activations",
       .choices = {"optimizer", "gradients", "parameters", "activations"}},
      {.key = "memory.offload_dir",
       .member = bind<&RunConfig::memory, &MemoryConfig::offload_dir>(),
       .help = "nvme: the folder of the files, which have no names",
       .derived = "the run's folder"},
      {.key = "memory.limit",
       .member = bind<&RunConfig::memory, &MemoryConfig::limit>(),
       .help = "bytes that a rank may use for tensors and shared memory; what "
               "asks for more ends the run",
       .bounds = {.min = 1, .max = 1LL << 50},
       .unit = Unit::kBytes,
       .derived = "no limit"},
      {.key = "checkpoint.*", .help = "saving the run and resuming it"},
      {.key = "comm.deadline",
       .member = bind<&RunConfig::comm, &CommConfig::deadline_seconds>(),
       .help = "how long a rank waits for another before the run fails",
       .bounds = {.min = 0, .max = 1e9, .is_min_excluded = true},
       .unit = Unit::kSeconds},
      {.key = "comm.quantize_*",
       .help = "quantised collectives are not offered; every sum is exact in "
               "its dtype",
       .refused_by = "no-quantised-collectives"},
  };
  add_link<0>(rows,
              {"comm.emulate.dp.latency",
               "comm.emulate.dp.bandwidth",
               "comm.emulate.dp.jitter"});
  add_link<1>(rows,
              {"comm.emulate.tp.latency",
               "comm.emulate.tp.bandwidth",
               "comm.emulate.tp.jitter"});
  add_link<2>(rows,
              {"comm.emulate.pp.latency",
               "comm.emulate.pp.bandwidth",
               "comm.emulate.pp.jitter"});
  return rows;
}

std::vector<Field> run_fields() {
  return {
      {.key = "fault.restarts",
       .member = bind<&RunConfig::fault, &FaultConfig::restarts>(),
       .help = "how often a failed run starts again from its last checkpoint",
       .bounds = {.min = 0, .max = 1 << 20},
       .is_default_only = true},
      {.key = "run.dir",
       .member = bind<&RunConfig::run, &RunSection::dir>(),
       .help = "the run's folder; one that exists is refused",
       .derived = "runs/ and the file's name, with a number if it is taken"},
      {.key = "run.device",
       .member = bind<&RunConfig::run, &RunSection::device>(),
       .help = "where tensors live",
       .choices = {"cpu"},
       .later = {"cuda"}},
      {.key = "profile.*", .help = "recording what operators cost"},
      {.key = "lora.*", .help = kLora, .refused_by = "no-adapters"},
  };
}

}  // namespace

std::string_view Field::section() const {
  return key.substr(0, key.rfind('.'));
}

std::string_view Field::name() const {
  return key.substr(key.rfind('.') + 1);
}

bool Field::is_read() const {
  return !std::holds_alternative<std::monostate>(member);
}

const std::vector<Field>& fields() {
  static const std::vector<Field> table = [] {
    std::vector<Field> rows;
    for (const auto& section : {model_fields(),
                                data_fields(),
                                parallel_fields(),
                                training_fields(),
                                optimizer_fields(),
                                memory_and_comm_fields(),
                                run_fields()}) {
      rows.insert(rows.end(), section.begin(), section.end());
    }
    return rows;
  }();
  return table;
}

const Field* find_field(std::string_view key) {
  for (const Field& field : fields()) {
    const bool is_prefix = field.key.ends_with('*');
    if (is_prefix ? key.starts_with(field.key.substr(0, field.key.size() - 1))
                  : key == field.key) {
      return &field;
    }
  }
  return nullptr;
}

}  // namespace triax
