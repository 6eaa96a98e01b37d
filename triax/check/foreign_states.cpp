// SPDX-License-Identifier: Apache-2.0
// Bytes of weights, gradients and optimizer states by each system's own code.
#include "triax/check/foreign_states.h"

#include <fmt/format.h>

#include <algorithm>

#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/foreign/megatron_arguments_view.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

constexpr double kHalf = 2.0;
constexpr double kFull = 4.0;

// Adam's two; of other optimizers none is counted.
double num_moments(const RunFacts& facts) {
  const std::string name = facts.optimizer.value_or("");
  return name == "adam" || name == "adamw" || name == "fusedadam" ? 2.0 : 0.0;
}

bool is_half(const RunFacts& facts) {
  return facts.precision && *facts.precision != "fp32";
}

// Half-sized weights and gradients beside fp32 masters, or all in fp32.
StateBytes mixed_bytes(const RunFacts& facts, double gradient) {
  const double moments = num_moments(facts) * kFull;
  return is_half(facts) ? StateBytes{kHalf, gradient, kFull + moments}
                        : StateBytes{kFull, kFull, moments};
}

KeptStates not_known(std::string why) {
  KeptStates states;
  states.unknown = std::move(why);
  return states;
}

KeptStates deepspeed_states(const ForeignFindings& findings,
                            const Layout& layout) {
  const RunFacts& facts = findings.facts;
  for (const char* key : {"bf16.bf16_master_weights_and_grads",
                          "bf16.bf16_optimizer_states",
                          "fp16.fp16_master_weights_and_grads",
                          "torch_autocast.enabled"}) {
    if (deepspeed_flag(findings, key, false)) {
      return not_known(fmt::format("{} is on", key));
    }
  }
  if (findings.is_set("pipeline") && !findings.context.other) {
    return not_known("the pipeline's stages are the program's");
  }
  if (!facts.zero_stage || *facts.zero_stage < 0 || *facts.zero_stage > 3) {
    return not_known("the zero stage is not known");
  }
  for (const char* key : {"bf16.enabled",
                          "bfloat16.enabled",
                          "fp16.enabled",
                          "zero_optimization.offload_optimizer.device",
                          "zero_optimization.offload_param.device"}) {
    if (word_at(findings.config, key).value_or("") == "auto") {
      return not_known(fmt::format("{} is \"auto\"", key));
    }
  }
  if (!facts.precision || !facts.offload_optimizer ||
      !facts.offload_parameters) {
    return not_known("the precision or what is offloaded is not known");
  }
  KeptStates states{mixed_bytes(facts, kHalf),
                    static_cast<int>(*facts.zero_stage)};
  if (layout.dp) {
    states.shards = *layout.dp * layout.cp;  // a sequence's ranks, too
  }
  if (*facts.offload_optimizer != "none") {
    states.bytes.gradient = states.bytes.optimizer = 0.0;
  }
  if (*facts.offload_parameters != "none") {
    states.bytes.weight = 0.0;
  }
  return states;
}

KeptStates megatron_states(const ForeignFindings& findings,
                           const Layout& layout) {
  const RunFacts& facts = findings.facts;
  const MegatronArguments args(findings.config);
  if (!args.is_closed()) {
    return not_known(args.why_open());
  }
  for (const char* key : {"use-precision-aware-optimizer",
                          "fp8-param-gather",
                          "fp4-param-gather",
                          "optimizer-cpu-offload",
                          "freeze-all-layers",
                          "skip-train",
                          "multi-latent-attention",
                          "hybrid-layer-pattern",
                          "hybrid-override-pattern",
                          "heterogeneous-layers-config-path",
                          "heterogeneous-layers-config-encoded-json"}) {
    if (args.is_set(key)) {
      return not_known(fmt::format("--{} keeps other bytes", key));
    }
  }
  const bool is_fp32 = args.is_off("bf16") && args.is_off("fp16");
  if (!facts.zero_stage || *facts.zero_stage < 0 || *facts.zero_stage > 3) {
    return not_known("the sharding is not known");
  }
  // validate_args() accumulates in fp32 under bf16, unless it reduces in it.
  const bool is_wide = args.is_on("bf16") &&
                       args.is_off("grad-reduce-in-bf16") &&
                       args.is_off("use-torch-fsdp2");
  KeptStates states{mixed_bytes(facts, is_wide ? kFull : kHalf),
                    static_cast<int>(*facts.zero_stage)};
  if (is_fp32 != !is_half(facts)) {
    return not_known("the precision is not known");
  }
  const std::optional<int64_t> groups =
      args.whole("num-distributed-optimizer-instances");
  if (layout.dp && groups && *groups > 0) {
    states.shards = std::max<int64_t>(1, *layout.dp * layout.cp / *groups);
  }
  return states;
}

// FSDP keeps shards of weights in training.dtype, gathered or not.
KeptStates torchtitan_states(const ForeignFindings& findings,
                             const Layout& layout) {
  const RunFacts& facts = findings.facts;
  if (facts.offload_optimizer.value_or("") == "cpu") {
    return not_known("training.enable_cpu_offload is on");
  }
  const bool is_short =
      torchtitan_word(findings.config, "training.dtype") == "bfloat16";
  const double size = is_short ? kHalf : kFull;
  const bool frees =
      torchtitan_flag(findings.config, "optimizer.early_step_in_backward");
  KeptStates states{{size, frees ? 0.0 : size, num_moments(facts) * size},
                    facts.zero_stage.value_or(3) == 0 ? 0 : 3};
  const int64_t replicas = torchtitan_whole(
      findings.config, "parallelism.data_parallel_replicate_degree");
  if (layout.dp && replicas > 0) {
    states.shards = std::max<int64_t>(1, *layout.dp * layout.cp / replicas);
  }
  return states;
}

KeptStates nanotron_states(const ForeignFindings& findings,
                           const Layout& layout) {
  const RunFacts& facts = findings.facts;
  const std::string model = nanotron_model_class(findings.config);
  if (model != "llama" && model != "qwen2") {
    return not_known(fmt::format("{} is a class of its own", model));
  }
  if (!facts.zero_stage || *facts.zero_stage < 0) {
    return not_known("the zero stage is not known");
  }
  if (!facts.precision) {
    return not_known("the precision is not known");
  }
  // With fp32 gradients there are fp32 weights too, else everything has the
  // weights' type.
  const bool is_exact = facts.reduce_dtype && is_half(facts);
  const double size = is_half(facts) ? kHalf : kFull;
  const StateBytes bytes =
      is_exact ? mixed_bytes(facts, kFull)
               : StateBytes{size, size, num_moments(facts) * size};
  return {bytes, *facts.zero_stage > 0 ? 1 : 0, layout.dp};
}

}  // namespace

KeptStates kept_states(const ForeignFindings& findings, const Layout& said) {
  Layout layout = said;
  if (layout.is_world_a_setting) {
    layout.dp.reset();  // it may stand for a multiple of it
  }
  switch (findings.config.system) {
    case System::kDeepSpeed:
      return deepspeed_states(findings, layout);
    case System::kMegatron:
      return megatron_states(findings, layout);
    case System::kTorchTitan:
      return torchtitan_states(findings, layout);
    case System::kNanotron:
      return nanotron_states(findings, layout);
    case System::kTriax:
      break;
  }
  return not_known("it is triax's own");
}

}  // namespace triax
