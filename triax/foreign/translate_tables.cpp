// SPDX-License-Identifier: Apache-2.0
// What each system calls a fact, and how it writes the value.
#include <fmt/format.h>

#include <map>

#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

using Names = std::map<std::string, const char*>;

const char* const kNoKey = "there is no key for it";

// The plain ones: a name, the same value.
std::vector<KeyValue> write_named(const Names& names,
                                  const std::string& name,
                                  const Json& value,
                                  std::string& why) {
  const auto found = names.find(name);
  if (found == names.end()) {
    why = kNoKey;
    return {};
  }
  return {{found->second, value}};
}

bool is(const Json& value, const char* text) {
  return value == Json(text);
}

// The few schedules that every system has by some name.
bool is_cosine(const Json& value) {
  return is(value, "cosine") || is(value, "WarmupCosineLR");
}

bool is_linear(const Json& value) {
  return is(value, "linear") || is(value, "WarmupDecayLR");
}

bool is_constant(const Json& value) {
  return is(value, "constant") || is(value, "WarmupLR");
}

std::string schedule_name(const Json& value) {
  return is_cosine(value)     ? "cosine"
         : is_linear(value)   ? "linear"
         : is_constant(value) ? "constant"
                              : "";
}

bool is_adam(const Json& value) {
  return is(value, "adam") || is(value, "adamw");
}

}  // namespace

std::vector<KeyValue> write_deepspeed(const std::string& name,
                                      const Json& value,
                                      std::string& why) {
  static const Names names = {
      {"global_batch", "train_batch_size"},
      {"microbatch", "train_micro_batch_size_per_gpu"},
      {"accumulation", "gradient_accumulation_steps"},
      {"zero_stage", "zero_optimization.stage"},
      {"bucket_elements", "zero_optimization.reduce_bucket_size"},
      {"overlap_reduce", "zero_optimization.overlap_comm"},
      {"clipping", "gradient_clipping"},
      {"lr", "optimizer.params.lr"},
      {"weight_decay", "optimizer.params.weight_decay"},
      {"adam_eps", "optimizer.params.eps"},
      {"warmup_steps", "scheduler.params.warmup_num_steps"},
      {"steps", "scheduler.params.total_num_steps"},
  };
  if (name == "tp" || name == "cp") {
    const char* key =
        name == "tp" ? "tensor_parallel.autotp_size" : "sequence_parallel_size";
    return value == Json(1) ? std::vector<KeyValue>{}
                            : std::vector<KeyValue>{{key, value}};
  }
  if (name == "dp") {
    return {};  // the world's, after tp and sequence_parallel_size
  }
  if (name == "pp") {
    why = "a pipeline is made in the program, by PipelineModule(num_stages=…)";
    return {};
  }
  if (name == "offload_optimizer" || name == "offload_parameters") {
    const char* section =
        name == "offload_optimizer" ? "offload_optimizer" : "offload_param";
    return is(value, "none")
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{
                     {fmt::format("zero_optimization.{}.device", section),
                      value}};
  }
  if (name == "precision") {
    if (is(value, "bf16") || is(value, "fp16")) {
      return {{value.get<std::string>() + ".enabled", true}};
    }
    why = is(value, "fp32") ? "" : kNoKey;
    return {};
  }
  if (name == "loss_scale") {
    return {{"fp16.loss_scale", value}};
  }
  if (name == "beta1" || name == "beta2") {
    return {{"optimizer.params." + name, value}};  // finish_keys()
  }
  if (name == "optimizer") {
    return {{"optimizer.type", is(value, "adamw") ? Json("AdamW") : value}};
  }
  if (name == "lr_schedule") {
    const std::string schedule = schedule_name(value);
    if (schedule.empty()) {
      why = "DeepSpeed has no such schedule";
      return {};
    }
    return {{"scheduler.type",
             schedule == "cosine"   ? "WarmupCosineLR"
             : schedule == "linear" ? "WarmupDecayLR"
                                    : "WarmupLR"},
            {"scheduler.params.warmup_type", "linear"}};
  }
  return write_named(names, name, value, why);
}

namespace {

std::vector<KeyValue> megatron_zero(const Json& value) {
  if (value == Json(0)) {
    return {};
  }
  if (value == Json(1)) {
    return {{"use-distributed-optimizer", true}};
  }
  return {{"use-megatron-fsdp", true},
          {"data-parallel-sharding-strategy",
           value == Json(2) ? "optim_grads" : "optim_grads_params"},
          {"use-distributed-optimizer", true}};
}

std::vector<KeyValue> megatron_recompute(const Json& value) {
  if (is(value, "full")) {
    return {{"recompute-granularity", "full"},
            {"recompute-method", "uniform"},
            {"recompute-num-layers", 1}};
  }
  return is(value, "selective")
             ? std::vector<KeyValue>{{"recompute-granularity", "selective"}}
             : std::vector<KeyValue>{};
}

std::vector<KeyValue> switch_if(bool is_on, const char* flag) {
  return is_on ? std::vector<KeyValue>{{flag, true}} : std::vector<KeyValue>{};
}

}  // namespace

std::vector<KeyValue> write_megatron(const std::string& name,
                                     const Json& value,
                                     std::string& why) {
  static const Names names = {
      {"tp", "tensor-model-parallel-size"},
      {"pp", "pipeline-model-parallel-size"},
      {"cp", "context-parallel-size"},
      {"ep", "expert-model-parallel-size"},
      {"expert_tp", "expert-tensor-parallel-size"},
      {"first_stage_layers", "decoder-first-pipeline-num-layers"},
      {"last_stage_layers", "decoder-last-pipeline-num-layers"},
      {"microbatch", "micro-batch-size"},
      {"global_batch", "global-batch-size"},
      {"bucket_elements", "ddp-bucket-size"},
      {"layers", "num-layers"},
      {"hidden", "hidden-size"},
      {"ffn", "ffn-hidden-size"},
      {"heads", "num-attention-heads"},
      {"head_dim", "kv-channels"},
      {"experts", "num-experts"},
      {"sequence", "seq-length"},
      {"max_positions", "max-position-embeddings"},
      {"lr", "lr"},
      {"min_lr", "min-lr"},
      {"weight_decay", "weight-decay"},
      {"clipping", "clip-grad"},
      {"beta1", "adam-beta1"},
      {"beta2", "adam-beta2"},
      {"adam_eps", "adam-eps"},
      {"warmup_steps", "lr-warmup-iters"},
      {"steps", "train-iters"},
      {"seed", "seed"},
  };
  if (name == "dp" || name == "accumulation") {
    return {};  // they follow from the world and the batch
  }
  if (name == "sequence_parallel") {
    return switch_if(value == Json(true), "sequence-parallel");
  }
  if (name == "zero_stage") {
    return megatron_zero(value);
  }
  if (name == "chunks") {
    return value == Json(1)
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{
                     {"num-virtual-stages-per-pipeline-rank", value}};
  }
  if (name == "schedule") {
    const bool is_own = is(value, "1f1b") || is(value, "interleaved");
    why = is_own ? "" : "Megatron-LM runs 1f1b, interleaved with chunks";
    return {};
  }
  if (name == "overlap_reduce") {
    return switch_if(value == Json(true), "overlap-grad-reduce");
  }
  if (name == "offload_optimizer" && !is(value, "none")) {
    return {{"optimizer-cpu-offload", true}};
  }
  if (name == "precision") {
    why = is(value, "fp8") ? "choose --fp8-format yourself" : "";
    return is(value, "fp32") || is(value, "fp8")
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{{value.get<std::string>(), true}};
  }
  if (name == "recompute") {
    return megatron_recompute(value);
  }
  if (name == "kv_heads") {
    return {{"group-query-attention", true}, {"num-query-groups", value}};
  }
  if (name == "tied") {
    return switch_if(value == Json(false),
                     "untie-embeddings-and-output-weights");
  }
  if (name == "gated") {
    return switch_if(value == Json(true), "swiglu");
  }
  if (name == "learned_positions") {
    return {{"position-embedding-type",
             value == Json(true) ? "learned_absolute" : "rope"}};
  }
  if (name == "norm") {
    return {{"normalization",
             is(value, "rmsnorm") || is(value, "RMSNorm") ? "RMSNorm"
                                                          : "LayerNorm"}};
  }
  if (name == "optimizer") {
    why = is_adam(value) || is(value, "sgd") ? "" : "--optimizer: adam or sgd";
    return why.empty()
               ? std::vector<KeyValue>{{"optimizer",
                                        is_adam(value) ? "adam" : "sgd"}}
               : std::vector<KeyValue>{};
  }
  if (name == "lr_schedule") {
    const std::string schedule = schedule_name(value);
    why = schedule.empty() ? "--lr-decay-style has no such schedule" : "";
    return schedule.empty()
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{{"lr-decay-style", schedule}};
  }
  if (name == "vocabulary") {
    why = "Megatron-LM takes it from its tokenizer";
    return {};
  }
  return write_named(names, name, value, why);
}

std::vector<KeyValue> write_torchtitan(const std::string& name,
                                       const Json& value,
                                       std::string& why) {
  static const Names names = {
      {"tp", "parallelism.tensor_parallel_degree"},
      {"pp", "parallelism.pipeline_parallel_degree"},
      {"cp", "parallelism.context_parallel_degree"},
      {"ep", "parallelism.expert_parallel_degree"},
      {"expert_tp", "parallelism.expert_tensor_parallel_degree"},
      {"microbatch", "training.local_batch_size"},
      {"global_batch", "training.global_batch_size"},
      {"sequence", "training.seq_len"},
      {"steps", "training.steps"},
      {"clipping", "training.max_norm"},
      {"lr", "optimizer.lr"},
      {"weight_decay", "optimizer.weight_decay"},
      {"beta1", "optimizer.beta1"},
      {"beta2", "optimizer.beta2"},
      {"adam_eps", "optimizer.eps"},
      {"warmup_steps", "lr_scheduler.warmup_steps"},
      {"recompute", "activation_checkpoint.mode"},
      {"seed", "debug.seed"},
  };
  if (name == "dp" || name == "accumulation" || name == "sequence_parallel") {
    return {};  // they follow from the world, the batch and tp
  }
  if (name == "zero_stage") {
    if (value == Json(3) || value == Json(2)) {
      return {{"parallelism.data_parallel_shard_degree", -1},
              {"parallelism.fsdp_reshard_after_forward",
               value == Json(3) ? "always" : "never"}};
    }
    why = value == Json(0)
              ? "set data_parallel_replicate_degree to dp and the shard "
                "degree to 1"
              : "FSDP has no stage 1; the nearest is "
                "fsdp_reshard_after_forward = \"never\"";
    return {};
  }
  if (name == "schedule") {
    const char* schedule = is(value, "1f1b")          ? "1F1B"
                           : is(value, "gpipe")       ? "GPipe"
                           : is(value, "interleaved") ? "Interleaved1F1B"
                                                      : nullptr;
    why = schedule == nullptr ? "choose pipeline_parallel_schedule" : "";
    return schedule == nullptr
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{
                     {"parallelism.pipeline_parallel_schedule", schedule}};
  }
  if (name == "precision") {
    why = is(value, "bf16") || is(value, "fp32")
              ? ""
              : "mixed_precision_param takes bfloat16 or float32";
    return why.empty()
               ? std::vector<KeyValue>{{"training.mixed_precision_param",
                                        is(value, "bf16") ? "bfloat16"
                                                          : "float32"}}
               : std::vector<KeyValue>{};
  }
  if (name == "offload_parameters" && is(value, "cpu")) {
    return {{"training.enable_cpu_offload", true}};
  }
  if (name == "optimizer") {
    why = is_adam(value) ? "" : "optimizer.name takes Adam or AdamW";
    return is_adam(value)
               ? std::vector<KeyValue>{{"optimizer.name",
                                        is(value, "adam") ? "Adam" : "AdamW"}}
               : std::vector<KeyValue>{};
  }
  if (name == "lr_schedule") {
    const std::string schedule = schedule_name(value);
    why = schedule == "cosine" || schedule == "linear"
              ? ""
              : "decay_type takes linear, sqrt or cosine";
    return why.empty()
               ? std::vector<KeyValue>{{"lr_scheduler.decay_type", schedule}}
               : std::vector<KeyValue>{};
  }
  std::vector<KeyValue> keys = write_named(names, name, value, why);
  if (!why.empty()) {
    why = "a model is a [model] flavor there; " + why;
  }
  return keys;
}

std::vector<KeyValue> write_nanotron(const std::string& name,
                                     const Json& value,
                                     std::string& why) {
  static const std::string factory = "optimizer.optimizer_factory.";
  static const std::string scheduler = "optimizer.learning_rate_scheduler.";
  static const std::string model = "model.model_config.";
  static const std::map<std::string, std::string> names = {
      {"tp", "parallelism.tp"},
      {"pp", "parallelism.pp"},
      {"dp", "parallelism.dp"},
      {"cp", "parallelism.context_parallel_size"},
      {"ep", "parallelism.expert_parallel_size"},
      {"microbatch", "tokens.micro_batch_size"},
      {"accumulation", "tokens.batch_accumulation_per_replica"},
      {"sequence", "tokens.sequence_length"},
      {"steps", "tokens.train_steps"},
      {"zero_stage", "optimizer.zero_stage"},
      {"clipping", "optimizer.clip_grad"},
      {"weight_decay", "optimizer.weight_decay"},
      {"beta1", factory + "adam_beta1"},
      {"beta2", factory + "adam_beta2"},
      {"adam_eps", factory + "adam_eps"},
      {"lr", scheduler + "learning_rate"},
      {"min_lr", scheduler + "min_decay_lr"},
      {"warmup_steps", scheduler + "lr_warmup_steps"},
      {"layers", model + "num_hidden_layers"},
      {"hidden", model + "hidden_size"},
      {"ffn", model + "intermediate_size"},
      {"heads", model + "num_attention_heads"},
      {"kv_heads", model + "num_key_value_heads"},
      {"vocabulary", model + "vocab_size"},
      {"max_positions", model + "max_position_embeddings"},
      {"tied", model + "tie_word_embeddings"},
      {"seed", "general.seed"},
  };
  if (name == "global_batch") {
    return {};  // micro_batch_size * batch_accumulation_per_replica * dp
  }
  if (name == "zero_stage" && (value == Json(2) || value == Json(3))) {
    why = "nanotron's zero_stage is 0 or 1";
    return {{"optimizer.zero_stage", 1}};
  }
  if (name == "precision") {
    why = is(value, "bf16") || is(value, "fp32") || is(value, "fp16") ? ""
                                                                      : kNoKey;
    return why.empty()
               ? std::vector<KeyValue>{{"model.dtype",
                                        is(value, "bf16")   ? "bfloat16"
                                        : is(value, "fp16") ? "float16"
                                                            : "float32"}}
               : std::vector<KeyValue>{};
  }
  if (name == "schedule") {
    why = is(value, "1f1b") || is(value, "gpipe") ? ""
                                                  : "pp_engine: 1f1b or afab";
    return why.empty()
               ? std::vector<KeyValue>{{"parallelism.pp_engine",
                                        is(value, "1f1b") ? "1f1b" : "afab"}}
               : std::vector<KeyValue>{};
  }
  if (name == "sequence_parallel") {
    return {{"parallelism.tp_mode",
             value == Json(true) ? "REDUCE_SCATTER" : "ALL_REDUCE"}};
  }
  if (name == "recompute" && is(value, "full")) {
    return {{"parallelism.recompute_layer", true}};
  }
  if (name == "optimizer") {
    why = is_adam(value) ? "" : "its factory takes adamW or sgd";
    return is_adam(value) ? std::vector<KeyValue>{{factory + "name", "adamW"}}
                          : std::vector<KeyValue>{};
  }
  if (name == "lr_schedule") {
    const std::string schedule = schedule_name(value);
    why = schedule == "cosine" || schedule == "linear"
              ? ""
              : "lr_decay_style takes linear, cosine or 1-sqrt";
    return why.empty()
               ? std::vector<KeyValue>{{scheduler + "lr_decay_style", schedule}}
               : std::vector<KeyValue>{};
  }
  const auto found = names.find(name);
  if (found == names.end()) {
    why = kNoKey;
    return {};
  }
  return {{found->second, value}};
}

std::vector<KeyValue> write_triax(const std::string& name,
                                  const Json& value,
                                  std::string& why) {
  static const Names names = {
      {"tp", "parallel.tp"},
      {"pp", "parallel.pp"},
      {"dp", "parallel.dp"},
      {"zero_stage", "parallel.zero"},
      {"chunks", "parallel.chunks"},
      {"sequence_parallel", "parallel.sequence_parallel"},
      {"microbatch", "training.microbatch_size"},
      {"accumulation", "training.gradient_accumulation_steps"},
      {"global_batch", "training.global_batch_size"},
      {"steps", "training.steps"},
      {"seed", "training.seed"},
      {"clipping", "training.gradient_clipping"},
      {"sequence", "data.sequence_length"},
      {"layers", "model.num_hidden_layers"},
      {"hidden", "model.hidden_size"},
      {"ffn", "model.intermediate_size"},
      {"heads", "model.num_attention_heads"},
      {"kv_heads", "model.num_key_value_heads"},
      {"head_dim", "model.head_dim"},
      {"vocabulary", "model.vocab_size"},
      {"max_positions", "model.max_position_embeddings"},
      {"tied", "model.tie_word_embeddings"},
      {"lr", "optimizer.lr"},
      {"min_lr", "optimizer.min_lr"},
      {"weight_decay", "optimizer.weight_decay"},
      {"warmup_steps", "optimizer.warmup_steps"},
      {"adam_eps", "optimizer.eps"},
  };
  if (name == "schedule") {
    why = is(value, "1f1b") || is(value, "gpipe") ? ""
                                                  : "triax has gpipe and 1f1b";
    return why.empty() ? std::vector<KeyValue>{{"parallel.schedule", value}}
                       : std::vector<KeyValue>{};
  }
  if (name == "precision") {
    why =
        is(value, "bf16") || is(value, "fp32") ? "" : "triax has fp32 and bf16";
    return why.empty()
               ? std::vector<KeyValue>{{"training.precision",
                                        is(value, "bf16") ? "bf16_autocast"
                                                          : "fp32"}}
               : std::vector<KeyValue>{};
  }
  if (name == "optimizer") {
    why = is_adam(value) || is(value, "sgd") ? "" : "triax has adamw and sgd";
    return why.empty()
               ? std::vector<KeyValue>{{"optimizer.name",
                                        is_adam(value) ? "adamw" : "sgd"}}
               : std::vector<KeyValue>{};
  }
  if (name == "lr_schedule") {
    const std::string schedule = schedule_name(value);
    why = schedule.empty() ? "triax has constant, cosine, linear and wsd" : "";
    return schedule.empty()
               ? std::vector<KeyValue>{}
               : std::vector<KeyValue>{{"optimizer.schedule", schedule}};
  }
  if (name == "learned_positions") {
    return {{"model.family", value == Json(true) ? "gpt2" : "llama"}};
  }
  if (name == "gated" || name == "norm") {
    return {};  // the family's
  }
  if (name == "beta1" || name == "beta2") {
    return {{"optimizer." + name, value}};  // finish_keys() makes a list
  }
  return write_named(names, name, value, why);
}

}  // namespace triax
