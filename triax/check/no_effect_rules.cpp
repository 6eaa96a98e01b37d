// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/check/findings.h"
#include "triax/config/fields.h"
#include "triax/plan/offload.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

// A key that does something only in some runs.
struct Condition {
  std::string_view key;
  bool holds;
  std::string_view otherwise;  // why it does nothing
};

std::vector<Condition> conditions(const RunConfig& config) {
  const bool is_adamw = config.optimizer.name == "adamw";
  const bool is_llama = config.model.family == ModelFamily::kLlama;
  const bool is_llama3 = is_llama && config.model.rope_scaling.type == "llama3";
  const bool validates = config.training.validate_every > 0;
  const bool is_fp16 = config.training.precision == Precision::kFp16;
  const std::string_view only_fp16 =
      "only training.precision = \"fp16\" has a loss scale";
  const bool splits_alone =
      config.parallel.pp > 1 && config.parallel.stages.empty();
  const bool is_on_file = config.memory.offload == Offload::kNvme;
  const OffloadedStates offloaded = offloaded_states(config);
  const bool moves_anything =
      (offloaded.optimizer && optimizer_element_bytes(config) > 0) ||
      offloaded.gradients || offloaded.parameters || offloaded.activations;
  const bool has_units = splits_parameters(config.parallel);
  const std::string_view only_zero3 =
      "only zero = 3 with dp above 1 gathers parameters";
  const std::string_view only_llama = "gpt2 has no rotary angles";
  const std::string_view only_llama3 = "rope_scaling.type is not \"llama3\"";
  return {
      {"optimizer.betas", is_adamw, "only adamw has betas"},
      {"optimizer.eps", is_adamw, "only adamw has an eps"},
      {"optimizer.momentum", !is_adamw, "only sgd has momentum"},
      {"optimizer.min_lr",
       config.optimizer.schedule != "constant",
       "a constant lr never falls"},
      {"optimizer.decay_steps",
       config.optimizer.schedule == "wsd",
       "only the wsd schedule has decay_steps"},
      {"model.rope_theta", is_llama, only_llama},
      {"model.rope_scaling.type", is_llama, only_llama},
      {"model.rope_scaling.factor", is_llama3, only_llama3},
      {"model.rope_scaling.low_freq_factor", is_llama3, only_llama3},
      {"model.rope_scaling.high_freq_factor", is_llama3, only_llama3},
      {"model.rope_scaling.original_max_position_embeddings",
       is_llama3,
       only_llama3},
      {"parallel.sequence_parallel",
       config.parallel.tp > 1,
       "tp is 1, and only its ranks split the sequence"},
      {"parallel.zero",
       num_shards(config.parallel) > 1,
       "one replica holds everything, whatever the stage"},
      {"parallel.zero_group", config.parallel.zero > 0, "parallel.zero is 0"},
      {"parallel.reshard_after_forward", has_units, only_zero3},
      {"parallel.prefetch", has_units, only_zero3},
      {"parallel.reduce_dtype",
       config.parallel.dp > 1,
       "dp is 1, and only replicas send gradients"},
      {"parallel.weigh_embedding_and_head",
       splits_alone,
       "it needs stages = \"auto\" and a pp above 1"},
      {"memory.recompute_layers",
       config.memory.recompute == Recompute::kEveryK,
       "only recompute = \"every_k\" has groups of layers"},
      {"memory.offload",
       config.memory.offload != Offload::kHost,
       "on a CPU device everything is in the host's memory"},
      {"memory.offload",
       config.memory.offload != Offload::kNvme || moves_anything,
       "nothing that offload_states names exists in this run"},
      {"memory.offload_states", is_on_file, "memory.offload is not \"nvme\""},
      {"memory.offload_dir", is_on_file, "memory.offload is not \"nvme\""},
      {"data.validation", validates, "training.validate_every is 0"},
      {"training.initial_loss_scale", is_fp16, only_fp16},
      {"training.min_loss_scale", is_fp16, only_fp16},
      {"training.loss_scale_window", is_fp16, only_fp16},
      {"training.validation_batches",
       validates,
       "training.validate_every is 0"},
  };
}

bool differs_from_default(const Field& field, const RunConfig& config) {
  return print_value(field, config) != print_value(field, RunConfig{});
}

void check_links(Findings& findings) {
  const ParallelConfig& parallel = findings.config.parallel;
  for (const auto& [axis, link] : findings.config.comm.emulate) {
    const int degree = axis == "tp"   ? parallel.tp
                       : axis == "pp" ? parallel.pp
                                      : parallel.dp;
    const std::string prefix = "comm.emulate." + axis + ".";
    std::string key = prefix + "latency";
    for (const char* name : {"jitter", "bandwidth", "latency"}) {
      key = findings.is_set(prefix + name) ? prefix + name : key;
    }
    if (degree == 1) {
      findings.warning("no-effect",
                       key,
                       fmt::format("does nothing: {} is 1", axis),
                       "leave it out");
    } else if (link.jitter > 0.0 && link.latency_seconds == 0.0 &&
               link.bytes_per_second == 0.0) {
      findings.warning(
          "no-effect",
          prefix + "jitter",
          "does nothing: it is a share of what an operation costs, "
          "which is 0",
          "give a latency or a bandwidth");
    } else if (link == EmulatedLink{}) {
      findings.warning("no-effect",
                       key,
                       "does nothing: no latency and no limit",
                       "leave it out");
    }
  }
}

}  // namespace

void check_no_effect(Findings& findings) {
  for (const Condition& condition : conditions(findings.config)) {
    const std::string key(condition.key);
    const Field* field = find_field(key);
    if (!condition.holds && findings.is_set(key) &&
        differs_from_default(*field, findings.config)) {
      findings.warning("no-effect",
                       key,
                       fmt::format("does nothing: {}", condition.otherwise),
                       "leave it out");
    }
  }
  check_links(findings);
}

}  // namespace triax
