// SPDX-License-Identifier: Apache-2.0
#include "triax/config/key_aliases.h"

#include <algorithm>

#include "triax/config/nearest.h"

namespace triax {
namespace {

constexpr KeyAlias kAliases[] = {
    {"zero_stage zero_optimization fsdp distributed_optimizer "
     "use_distributed_optimizer data_parallel_sharding_strategy",
     "parallel.zero"},
    {"tensor_parallel tensor_parallel_size tensor_parallel_degree "
     "tensor_model_parallel_size tp_size tp_degree model_parallel_size "
     "autotp_size",
     "parallel.tp"},
    {"pipeline_parallel pipeline_parallel_size pipeline_parallel_degree "
     "pipeline_model_parallel_size pp_size pp_degree num_stages",
     "parallel.pp"},
    {"data_parallel data_parallel_size data_parallel_degree dp_size dp_degree "
     "data_parallel_replicate_degree data_parallel_shard_degree",
     "parallel.dp"},
    {"context_parallel context_parallel_size context_parallel_degree cp_size "
     "cp_degree",
     "parallel.cp"},
    {"sp enable_sequence_parallel", "parallel.sequence_parallel"},
    {"pipeline_parallel_schedule pp_schedule pp_engine pipeline_schedule",
     "parallel.schedule"},
    {"virtual_stages num_virtual_stages virtual_pipeline_model_parallel_size "
     "num_layers_per_virtual_pipeline_stage",
     "parallel.chunks"},
    {"reduce_bucket_size allgather_bucket_size ddp_bucket_size bucket_size "
     "bucket_cap_mb",
     "parallel.bucket_bytes"},
    {"communication_data_type mixed_precision_reduce grad_reduce_in_fp32 "
     "grad_reduce_in_bf16 fp32_allreduce allreduce_dtype",
     "parallel.reduce_dtype"},
    {"accumulate_grad_in_fp32 accumulate_allreduce_grads_in_fp32 "
     "grad_accum_dtype main_grads_dtype",
     "",
     "gradients are always added up in fp32 (fp64 with training.precision = "
     "\"fp64\"); leave it out"},
    {"world_size num_gpus nproc nproc_per_node num_processes",
     "",
     "give --ranks N, or parallel.dp"},
    {"ep expert_parallel expert_parallel_size expert_parallel_degree "
     "expert_model_parallel_size ep_size",
     "",
     "mixture of experts is not offered; leave it out"},
    {"micro_batch micro_batches_size train_micro_batch_size_per_gpu "
     "micro_batch_size_per_gpu per_device_train_batch_size local_batch_size "
     "mbs",
     "training.microbatch_size"},
    {"batch_size train_batch_size total_batch_size gbs",
     "training.global_batch_size"},
    {"gradient_accumulation grad_accum grad_accum_steps "
     "accumulate_grad_batches "
     "batch_accumulation_per_replica num_microbatches microbatches",
     "training.gradient_accumulation_steps"},
    {"max_steps train_steps train_iters num_steps total_steps iters max_iters "
     "training_steps",
     "training.steps"},
    {"epochs num_epochs num_train_epochs train_samples max_epochs",
     "training.steps",
     "one step takes training.global_batch_size sequences"},
    {"clip_grad max_grad_norm max_norm grad_clip gradient_clip "
     "gradient_clip_val",
     "training.gradient_clipping"},
    {"dtype torch_dtype param_dtype mixed_precision mixed_precision_param bf16 "
     "fp16 fp32 params_dtype autocast",
     "training.precision"},
    {"eval_interval eval_every eval_steps val_interval val_check_interval "
     "val_check_steps",
     "training.validate_every"},
    {"eval_iters eval_batches val_batches", "training.validation_batches"},
    {"random_seed manual_seed", "training.seed"},
    {"log_every log_interval log_freq logging_steps steps_per_print",
     "",
     "each step is shown and written to metrics.jsonl; leave it out"},
    {"learning_rate", "optimizer.lr"},
    {"min_learning_rate lr_min", "optimizer.min_lr"},
    {"warmup lr_warmup_iters lr_warmup_steps warmup_num_steps num_warmup_steps",
     "optimizer.warmup_steps"},
    {"lr_decay_style lr_schedule lr_scheduler scheduler lr_scheduler_type",
     "optimizer.schedule"},
    {"lr_decay_iters lr_decay_steps wsd_decay_steps lr_wsd_decay_iters",
     "optimizer.decay_steps"},
    {"epsilon adam_eps adam_epsilon", "optimizer.eps"},
    {"wd l2 decay", "optimizer.weight_decay"},
    {"beta1 beta2 adam_beta1 adam_beta2", "optimizer.betas"},
    {"optimizer.type optimizer.optimizer", "optimizer.name"},
    {"frozen frozen_parameters trainable", "optimizer.freeze"},
    {"gradient_checkpointing activation_checkpointing activation_checkpoint "
     "recompute_granularity recompute_activations remat mode",
     "memory.recompute"},
    {"recompute_num_layers", "memory.recompute_layers"},
    {"cpu_offload enable_cpu_offload optimizer_cpu_offload offload_device "
     "fsdp_offload_params",
     "memory.offload"},
    {"offload_optimizer offload_optimizer_device",
     "memory.offload",
     "with memory.offload_states = [\"optimizer\"]"},
    {"offload_param offload_param_device cpu_offload_param",
     "memory.offload",
     "with memory.offload_states = [\"optimizer\", \"gradients\", "
     "\"parameters\"]"},
    {"cpu_offloading activation_offload activation_offloading "
     "fine_grained_activation_offloading",
     "memory.offload",
     "with memory.offload_states = [\"activations\"]"},
    {"nvme_path offload_path offload_folder swap_dir", "memory.offload_dir"},
    {"save_interval save_every save_steps checkpoint_interval",
     "",
     "checkpoints are not built yet; leave it out"},
    {"model.type model_type architecture arch", "model.family"},
    {"dim d_model n_embd embed_dim model_dim", "model.hidden_size"},
    {"ffn_hidden_size ffn_dim d_ff n_inner hidden_dim",
     "model.intermediate_size"},
    {"layers num_layers n_layer n_layers depth", "model.num_hidden_layers"},
    {"heads n_head n_heads num_heads", "model.num_attention_heads"},
    {"kv_heads n_kv_heads num_kv_heads num_query_groups",
     "model.num_key_value_heads"},
    {"kv_channels", "model.head_dim"},
    {"vocabulary padded_vocab_size n_vocab", "model.vocab_size"},
    {"n_positions n_ctx max_position_embedding block_size",
     "model.max_position_embeddings data.sequence_length"},
    {"tied_embeddings tie_embeddings "
     "share_embeddings_and_output_weights weight_tying",
     "model.tie_word_embeddings"},
    {"untie_embeddings_and_output_weights",
     "model.tie_word_embeddings",
     "its opposite"},
    {"rms_norm_eps layer_norm_epsilon norm_epsilon", "model.norm_eps"},
    {"rope_base rotary_base", "model.rope_theta"},
    {"init_std init_method_std initializer_std", "model.initializer_range"},
    {"dropout hidden_dropout attention_dropout dropout_p",
     "model.resid_pdrop model.embd_pdrop model.attn_pdrop"},
    {"seq_len seq_length sequence_len max_seq_len max_seq_length "
     "context_length",
     "data.sequence_length"},
    {"data_path dataset dataset_path data_prefix train_data file", "data.path"},
    {"split val_split validation_split valid_data_path", "data.validation"},
    {"reset_attention_mask eod_mask_loss", "data.mask_document_ends"},
    {"tokenizer_path tokenizer_model tokenizer_type", "data.tokenizer"},
    {"timeout timeout_seconds distributed_timeout_minutes nccl_timeout "
     "train_timeout_seconds",
     "comm.deadline"},
    {"output_dir save_dir dump_folder out_dir log_dir", "run.dir"},
};

bool has_word(std::string_view words, const std::string& plain_word) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    if (plain_letters(words.substr(0, end)) == plain_word) {
      return true;
    }
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// "a", "a or b", "a, b or c" of blank-separated words.
std::string one_of(std::string_view words) {
  std::string text;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    text += text.empty() ? "" : words.empty() ? " or " : ", ";
    text += word;
  }
  return text;
}

std::string fix_of(const KeyAlias& alias) {
  if (alias.keys.empty()) {
    return std::string(alias.advice);
  }
  const std::string question = "did you mean " + one_of(alias.keys) + "?";
  return alias.advice.empty() ? question
                              : question + " " + std::string(alias.advice);
}

}  // namespace

std::span<const KeyAlias> key_aliases() {
  return kAliases;
}

std::string alias_fix(std::string_view section, std::string_view name) {
  const std::string alone = plain_letters(name);
  const std::string whole = plain_letters(section) + "." + alone;
  for (const KeyAlias& alias : kAliases) {
    if (has_word(alias.names, alone) || has_word(alias.names, whole)) {
      return fix_of(alias);
    }
  }
  return "";
}

}  // namespace triax
