// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/triax_facts.h"

#include "triax/config/fields.h"

namespace triax {
namespace {

// Everything of a resolved run file holds, written or not.
template <class T>
Fact<T> fact(const LoadedConfig& loaded, const char* key, T value) {
  return {std::move(value), key, loaded.position_of(key), false};
}

void add_model(const LoadedConfig& loaded, RunFacts& facts) {
  const ModelConfig& model = loaded.config.model;
  const bool is_gpt2 = model.family == ModelFamily::kGpt2;
  facts.layers =
      fact(loaded, "model.num_hidden_layers", model.num_hidden_layers);
  facts.hidden = fact(loaded, "model.hidden_size", model.hidden_size);
  facts.ffn = fact(loaded, "model.intermediate_size", model.intermediate_size);
  facts.heads =
      fact(loaded, "model.num_attention_heads", model.num_attention_heads);
  facts.kv_heads =
      fact(loaded, "model.num_key_value_heads", model.num_key_value_heads);
  facts.head_dim = fact(loaded, "model.head_dim", model.head_dim);
  facts.vocabulary = fact(loaded, "model.vocab_size", model.vocab_size);
  facts.max_positions = fact(
      loaded, "model.max_position_embeddings", model.max_position_embeddings);
  facts.tied =
      fact(loaded, "model.tie_word_embeddings", model.tie_word_embeddings);
  facts.gated = fact(loaded, "model.family", !is_gpt2);
  facts.learned_positions = fact(loaded, "model.family", is_gpt2);
  facts.norm = fact<std::string>(
      loaded, "model.family", is_gpt2 ? "layernorm" : "rmsnorm");
  facts.sequence =
      fact(loaded, "data.sequence_length", loaded.config.data.sequence_length);
}

/// No other system trains in fp64.
std::string precision_word(const RunConfig& config) {
  const std::string word = chosen("training.precision", config);
  return word == "fp64" ? "fp32" : word;
}

void add_training(const LoadedConfig& loaded, RunFacts& facts) {
  const TrainingConfig& training = loaded.config.training;
  const OptimizerConfig& optimizer = loaded.config.optimizer;
  facts.microbatch =
      fact(loaded, "training.microbatch_size", training.microbatch_size);
  facts.global_batch =
      fact(loaded, "training.global_batch_size", training.global_batch_size);
  if (training.gradient_accumulation_steps > 0) {
    facts.accumulation = fact(loaded,
                              "training.gradient_accumulation_steps",
                              training.gradient_accumulation_steps);
  }
  facts.steps = fact(loaded, "training.steps", training.steps);
  facts.seed = fact(loaded, "training.seed", training.seed);
  facts.clipping =
      fact(loaded, "training.gradient_clipping", training.gradient_clipping);
  facts.precision =
      fact(loaded, "training.precision", precision_word(loaded.config));
  facts.optimizer = fact(loaded, "optimizer.name", optimizer.name);
  facts.lr = fact(loaded, "optimizer.lr", optimizer.lr);
  facts.min_lr = fact(loaded, "optimizer.min_lr", optimizer.min_lr);
  facts.weight_decay =
      fact(loaded, "optimizer.weight_decay", optimizer.weight_decay);
  facts.lr_schedule = fact(loaded, "optimizer.schedule", optimizer.schedule);
  facts.warmup_steps =
      fact(loaded, "optimizer.warmup_steps", optimizer.warmup_steps);
  if (optimizer.name == "adamw" && optimizer.betas.size() == 2) {
    facts.beta1 = fact(loaded, "optimizer.betas", optimizer.betas[0]);
    facts.beta2 = fact(loaded, "optimizer.betas", optimizer.betas[1]);
    facts.adam_eps = fact(loaded, "optimizer.eps", optimizer.eps);
  }
}

}  // namespace

RunFacts triax_facts(const LoadedConfig& loaded) {
  RunFacts facts;
  facts.system = System::kTriax;
  facts.file = loaded.file;
  const ParallelConfig& parallel = loaded.config.parallel;
  facts.tp = fact<int64_t>(loaded, "parallel.tp", parallel.tp);
  facts.pp = fact<int64_t>(loaded, "parallel.pp", parallel.pp);
  if (parallel.dp > 0) {
    facts.dp = fact<int64_t>(loaded, "parallel.dp", parallel.dp);
  }
  facts.zero_stage = fact<int64_t>(loaded, "parallel.zero", parallel.zero);
  facts.schedule = fact(loaded, "parallel.schedule", parallel.schedule);
  facts.chunks = fact<int64_t>(loaded, "parallel.chunks", parallel.chunks);
  facts.sequence_parallel =
      fact(loaded, "parallel.sequence_parallel", parallel.sequence_parallel);
  add_model(loaded, facts);
  add_training(loaded, facts);
  return facts;
}

}  // namespace triax
