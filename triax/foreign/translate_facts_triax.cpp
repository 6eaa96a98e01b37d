// SPDX-License-Identifier: Apache-2.0
// What RunFacts has no member for, of a run file.
#include <algorithm>

#include "triax/config/fields.h"
#include "triax/foreign/translate_source.h"

namespace triax {
namespace {

std::string reduce_word(const RunConfig& config) {
  const std::string word = chosen("parallel.reduce_dtype", config);
  return word == "gradients" ? "fp32" : word;
}

/// Gradients and activations are facts of their own, which nobody else has a
/// key for: so they are named.
void add_offload(const RunConfig& config, std::vector<NamedFact>& named) {
  const MemoryConfig& memory = config.memory;
  if (memory.offload == Offload::kNone) {
    return;
  }
  const bool is_nvme = memory.offload == Offload::kNvme;
  for (const char* state :
       {"optimizer", "parameters", "gradients", "activations"}) {
    if (std::ranges::find(memory.offload_states, state) !=
        memory.offload_states.end()) {
      named.push_back({std::string("offload_") + state,
                       is_nvme ? "nvme" : "cpu",
                       {"memory.offload", "memory.offload_states"}});
    }
  }
  if (is_nvme && !memory.offload_dir.empty()) {
    named.push_back(
        {"offload_dir", memory.offload_dir, {"memory.offload_dir"}});
  }
}

}  // namespace

std::vector<NamedFact> more_facts(const LoadedConfig& loaded) {
  const ModelConfig& model = loaded.config.model;
  const OptimizerConfig& optimizer = loaded.config.optimizer;
  const bool is_gpt2 = model.family == ModelFamily::kGpt2;
  std::vector<NamedFact> named = {
      {"architecture", is_gpt2 ? "gpt2" : "llama", {"model.family"}},
      {"attention_dropout", model.attn_pdrop, {"model.attn_pdrop"}},
      {"norm_eps", model.norm_eps, {"model.norm_eps"}},
      {"init_std", model.initializer_range, {"model.initializer_range"}},
      {"linear_bias", is_gpt2, {"model.family"}},
      {"qkv_bias", is_gpt2, {"model.family"}},
      {"qk_norm", false, {"model.family"}},
      {"reduce_dtype", reduce_word(loaded.config), {"parallel.reduce_dtype"}},
  };
  if (loaded.config.memory.recompute != Recompute::kEveryK) {
    named.push_back({"recompute",
                     chosen("memory.recompute", loaded.config),
                     {"memory.recompute"}});
  }
  add_offload(loaded.config, named);
  // Megatron-LM's one number is for both.
  if (model.resid_pdrop == model.embd_pdrop) {
    named.push_back({"hidden_dropout",
                     model.resid_pdrop,
                     {"model.resid_pdrop", "model.embd_pdrop"}});
  } else {
    named.push_back(
        {"resid_dropout", model.resid_pdrop, {"model.resid_pdrop"}});
    named.push_back({"embd_dropout", model.embd_pdrop, {"model.embd_pdrop"}});
  }
  if (!is_gpt2) {
    named.push_back({"rope_theta", model.rope_theta, {"model.rope_theta"}});
    if (model.rope_scaling.type != "default") {
      named.push_back({"rope_scaling",
                       model.rope_scaling.type,
                       {"model.rope_scaling.type"}});
      // Megatron-LM's are these three, and no argument changes them.
      const RopeScaling usual;
      const RopeScaling& scaling = model.rope_scaling;
      const bool is_usual =
          scaling.low_freq_factor == usual.low_freq_factor &&
          scaling.high_freq_factor == usual.high_freq_factor &&
          scaling.original_max_position_embeddings ==
              usual.original_max_position_embeddings;
      named.push_back(
          {"rope_factor", scaling.factor, {"model.rope_scaling.factor"}});
      named.push_back(
          {"rope_is_usual",
           is_usual,
           {"model.rope_scaling.low_freq_factor",
            "model.rope_scaling.high_freq_factor",
            "model.rope_scaling.original_max_position_embeddings"}});
    }
  }
  if (optimizer.schedule == "wsd") {
    const int64_t tenth =
        std::max<int64_t>(1, loaded.config.training.steps / 10);
    named.push_back({"wsd_style", "linear", {"optimizer.schedule"}});
    named.push_back({"wsd_steps",
                     optimizer.decay_steps > 0 ? optimizer.decay_steps : tenth,
                     {"optimizer.decay_steps"}});
  }
  if (loaded.config.parallel.zero_group > 0) {
    named.push_back({"zero_group",
                     loaded.config.parallel.zero_group,
                     {"parallel.zero_group"}});
  }
  if (loaded.config.training.precision == Precision::kFp16) {
    const TrainingConfig& training = loaded.config.training;
    named.push_back({"initial_loss_scale",
                     training.initial_loss_scale,
                     {"training.initial_loss_scale"}});
    named.push_back({"min_loss_scale",
                     training.min_loss_scale,
                     {"training.min_loss_scale"}});
    named.push_back({"loss_scale_window",
                     training.loss_scale_window,
                     {"training.loss_scale_window"}});
  }
  if (optimizer.name == "adamw") {
    named.push_back({"decoupled_decay", true, {"optimizer.name"}});
  } else {
    named.push_back({"momentum", optimizer.momentum, {"optimizer.momentum"}});
  }
  return named;
}

}  // namespace triax
