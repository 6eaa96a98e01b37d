// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/units.h"
#include "triax/config/load.h"

namespace triax {
namespace {

template <class T>
void derive(LoadedConfig& loaded,
            const std::string& key,
            T& member,
            T value,
            const std::string& from) {
  if (member == T{}) {
    member = value;
    loaded.derived[key] = from;
  }
}

void resolve_model(LoadedConfig& loaded) {
  ModelConfig& model = loaded.config.model;
  const bool is_llama = model.family == ModelFamily::kLlama;
  derive(loaded,
         "model.num_key_value_heads",
         model.num_key_value_heads,
         model.num_attention_heads,
         fmt::format("num_attention_heads {}", model.num_attention_heads));
  derive(loaded,
         "model.head_dim",
         model.head_dim,
         std::max<int64_t>(1, model.hidden_size / model.num_attention_heads),
         fmt::format("hidden_size {} / num_attention_heads {}",
                     model.hidden_size,
                     model.num_attention_heads));
  derive(loaded,
         "model.intermediate_size",
         model.intermediate_size,
         4 * model.hidden_size,
         fmt::format("4 * hidden_size {}", model.hidden_size));
  derive(loaded,
         "model.norm_eps",
         model.norm_eps,
         is_llama ? 1e-6 : 1e-5,
         is_llama ? "the llama family" : "the gpt2 family");
  const std::string tie = "model.tie_word_embeddings";
  if (!loaded.is_set(tie) && !loaded.derived.contains(tie)) {
    model.tie_word_embeddings = !is_llama;
    loaded.derived[tie] = is_llama ? "the llama family" : "the gpt2 family";
  }
}

void resolve_dp(LoadedConfig& loaded) {
  ParallelConfig& parallel = loaded.config.parallel;
  const int64_t rest = int64_t{parallel.tp} * parallel.pp;
  const int64_t ranks = loaded.world_size.value_or(0);
  const bool is_from_ranks = ranks >= rest;
  derive(loaded,
         "parallel.dp",
         parallel.dp,
         is_from_ranks ? static_cast<int>(ranks / rest) : 1,
         is_from_ranks ? fmt::format("{} / (tp {} * pp {})",
                                     counted(ranks, "rank"),
                                     parallel.tp,
                                     parallel.pp)
                       : std::string("the ranks that triax starts itself"));
}

void resolve_batch(LoadedConfig& loaded) {
  TrainingConfig& training = loaded.config.training;
  const int64_t dp = loaded.config.parallel.dp;
  const int64_t accumulation =
      std::max<int64_t>(1, training.gradient_accumulation_steps);
  derive(loaded,
         "training.global_batch_size",
         training.global_batch_size,
         training.microbatch_size * accumulation * dp,
         fmt::format("microbatch_size {} * gradient_accumulation_steps {} * "
                     "dp {}",
                     training.microbatch_size,
                     accumulation,
                     dp));
}

}  // namespace

void resolve(LoadedConfig& loaded, std::optional<int> world_size) {
  if (world_size) {
    loaded.world_size = world_size;
  }
  resolve_model(loaded);
  resolve_dp(loaded);
  resolve_batch(loaded);
}

}  // namespace triax
