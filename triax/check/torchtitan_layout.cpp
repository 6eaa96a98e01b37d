// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/saturating.h"
#include "triax/check/torchtitan_rules.h"
#include "triax/foreign/torchtitan.h"

namespace triax {
namespace {

constexpr const char* kReplicas = "parallelism.data_parallel_replicate_degree";
constexpr const char* kShards = "parallelism.data_parallel_shard_degree";
constexpr const char* kExperts = "parallelism.expert_parallel_degree";
constexpr const char* kExpertTp = "parallelism.expert_tensor_parallel_degree";

int64_t degree(const Whole& fact) {
  return std::clamp<int64_t>(fact.value_or(1), 1, 1 << 20);
}

int64_t replicas(const ForeignFindings& findings) {
  return std::clamp<int64_t>(
      torchtitan_whole(findings.config, kReplicas), 1, 1 << 20);
}

// ParallelDims._validate: what the table's bounds let through.
void check_shards(ForeignFindings& findings) {
  const Whole shards = whole_at(findings.config, kShards);
  if (shards && *shards == 0) {
    findings.error("out-of-range",
                   kShards,
                   "0 is no degree: it is 1 or more, or -1 for all the ranks "
                   "that the other degrees leave",
                   "use -1, or 1 for no sharding",
                   Effect::kFailsLater);
  }
}

// ParallelDims._validate, where the shards are what is left. The product of
// given degrees is a rule of all systems.
void check_world(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const int64_t others = degree(facts.tp) * degree(facts.pp);
  const int64_t rest = others * degree(facts.cp);
  if (facts.dp || !findings.context.world || rest > (1 << 30) ||
      *findings.context.world % rest != 0) {
    return;
  }
  const int64_t left = *findings.context.world / rest;
  if (left % replicas(findings) == 0) {
    return;
  }
  findings.error(
      "world-size",
      kReplicas,
      fmt::format("{} ranks / (tp {} * pp {} * cp {}) = {} do not split over "
                  "{} replicas",
                  *findings.context.world,
                  degree(facts.tp),
                  degree(facts.pp),
                  degree(facts.cp),
                  left,
                  replicas(findings)),
      fmt::format("use a divisor of {}", left),
      Effect::kFailsLater);
}

// parallelize_llama: RuntimeError "DDP has not supported > 1D parallelism".
void check_plain_replicas(ForeignFindings& findings) {
  const std::string name = torchtitan_word(findings.config, "model.name");
  const RunFacts& facts = findings.facts;
  const auto shards = torchtitan_shards(findings);
  const bool is_llama = name == "llama3" || name == "llama4";
  const int64_t others = degree(facts.tp) * degree(facts.pp);
  if (!is_llama || !shards || *shards != 1 || replicas(findings) == 1 ||
      degree(facts.cp) > 1 || others == 1 || degree(facts.ep) > 1) {
    return;
  }
  findings.error(
      "refused-combination",
      kReplicas,
      fmt::format("{} replicas without shards are plain DDP, which takes no "
                  "tp {} or pp {}",
                  replicas(findings),
                  degree(facts.tp),
                  degree(facts.pp)),
      fmt::format("shard instead: {} = {}, {} = 1",
                  kShards,
                  replicas(findings),
                  kReplicas),
      Effect::kFailsLater);
}

void check_experts(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const int64_t ep = degree(facts.ep);
  const int64_t tp = degree(facts.tp);
  const int64_t expert_tp = degree(facts.expert_tp);
  if (ep == 1) {
    return;
  }
  if (expert_tp != 1 && expert_tp != tp) {
    findings.error("refused-combination",
                   kExpertTp,
                   fmt::format("{} is neither 1 nor tp {}", expert_tp, tp),
                   fmt::format("use 1 or {}", tp),
                   Effect::kFailsLater);
  }
  const auto shards = torchtitan_shards(findings);
  const int64_t held =
      shards ? saturating_product({*shards, degree(facts.cp), tp}) : 0;
  if (shards && (expert_tp == 1 || expert_tp == tp) &&
      held % (ep * expert_tp) != 0) {
    findings.error(
        "experts-divide",
        kExperts,
        fmt::format("shards {} * cp {} * tp {} = {} do not split over experts' "
                    "degree {} * experts' tp {}",
                    *shards,
                    degree(facts.cp),
                    tp,
                    held,
                    ep,
                    expert_tp),
        fmt::format("use a divisor of {}", held / expert_tp),
        Effect::kFailsLater);
  }
  const TorchTitanModel* model = torchtitan_model(findings.config);
  if (model != nullptr && model->experts == 0) {
    findings.warning("no-effect",
                     kExperts,
                     fmt::format("{} {} has no experts, so {} does nothing for "
                                 "it",
                                 model->name,
                                 model->flavor,
                                 ep),
                     "leave it 1",
                     Effect::kIgnored);
  }
}

void check_expert_backend(ForeignFindings& findings) {
  const std::string key = "parallelism.expert_parallel_comm_backend";
  const std::string name = torchtitan_word(findings.config, "model.name");
  if (torchtitan_word(findings.config, key) != "deepep" ||
      (name != "llama4" && name != "deepseek_v3")) {
    return;
  }
  const RunFacts& facts = findings.facts;
  if (degree(facts.ep) == 1 || degree(facts.expert_tp) > 1) {
    findings.error("refused-combination",
                   key,
                   fmt::format("deepep needs expert_parallel_degree above 1 "
                               "and expert_tensor_parallel_degree 1, not {} "
                               "and {}",
                               degree(facts.ep),
                               degree(facts.expert_tp)),
                   "use standard",
                   Effect::kFailsLater);
  }
}

// ParallelDims.seq_len_divisor, asserted by each parallelize function.
void check_sequence(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const std::string name = torchtitan_word(findings.config, "model.name");
  const int64_t length = facts.sequence.value_or(0);
  const int64_t divisor = degree(facts.tp) * 2 * degree(facts.cp);
  if (length < 1 || length % divisor == 0 || name == "flux") {
    return;
  }
  findings.error("sequence-too-long",
                 "training.seq_len",
                 fmt::format("{} is not a multiple of tp {} * 2 * cp {} = {}",
                             length,
                             degree(facts.tp),
                             degree(facts.cp),
                             divisor),
                 fmt::format("use {} or {}",
                             std::max(length / divisor, int64_t{1}) * divisor,
                             saturating_round_up(length, divisor)),
                 Effect::kFailsLater);
}

// maybe_enable_async_tp.
void check_async_tp(ForeignFindings& findings) {
  const std::string key = "parallelism.enable_async_tensor_parallel";
  if (!torchtitan_flag(findings.config, key)) {
    return;
  }
  if (degree(findings.facts.tp) == 1) {
    findings.warning("no-effect",
                     key,
                     "there is no tensor parallelism to overlap",
                     "remove it",
                     Effect::kIgnored);
  } else if (!torchtitan_compiles_model(findings)) {
    findings.error("refused-combination",
                   key,
                   "it needs compile.enable and \"model\" among "
                   "compile.components",
                   "set compile.enable = true",
                   Effect::kFailsLater);
  }
}

// maybe_enable_amp: "Mixed precision training with TP or PP is only supported
// when FSDP/HSDP/CP is enabled".
void check_without_shards(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const auto shards = torchtitan_shards(findings);
  if (!shards || *shards != 1 || degree(facts.cp) > 1) {
    return;
  }
  const bool has_shape = degree(facts.tp) > 1 || degree(facts.pp) > 1;
  if (has_shape &&
      torchtitan_word(findings.config, "training.dtype") == "float32" &&
      torchtitan_word(findings.config, "training.mixed_precision_param") ==
          "bfloat16") {
    findings.warning("no-effect",
                     "training.mixed_precision_param",
                     "bfloat16 comes with FSDP alone, and nothing is sharded: "
                     "tp and pp run in float32",
                     "shard over 2 ranks or more, or set training.dtype = "
                     "\"bfloat16\"",
                     Effect::kSilentlyDifferent);
  }
  if (torchtitan_flag(findings.config, "training.enable_cpu_offload")) {
    findings.error("offload-no-effect",
                   "training.enable_cpu_offload",
                   "FSDP moves the states to the CPU, and nothing is sharded: "
                   "the model is made there and stays there",
                   "shard over 2 ranks or more, or remove it",
                   Effect::kFailsLater);
  }
  const Word reshard =
      word_at(findings.config, "parallelism.fsdp_reshard_after_forward");
  if (reshard && *reshard != "default") {
    findings.warning("no-effect",
                     reshard.key,
                     "nothing is sharded",
                     "remove it",
                     Effect::kIgnored);
  }
}

// Parallelism.__post_init__ refuses an empty name, cp_shard an unknown one.
void check_load_balancer(ForeignFindings& findings) {
  const std::string key = "parallelism.context_parallel_load_balancer";
  const std::string name = torchtitan_word(findings.config, key);
  if (name.empty()) {
    findings.error(
        "unknown-value", key, "an empty name is refused", "remove it");
  } else if (name != "headtail" && name != "ptrr" &&
             degree(findings.facts.cp) > 1) {
    findings.error("unknown-value",
                   key,
                   fmt::format("there is no load balancer {}", in_quotes(name)),
                   "use \"headtail\" or \"ptrr\"",
                   Effect::kFailsLater);
  }
}

}  // namespace

void check_torchtitan_layout(ForeignFindings& findings) {
  check_shards(findings);
  check_world(findings);
  check_plain_replicas(findings);
  check_experts(findings);
  check_expert_backend(findings);
  check_sequence(findings);
  check_async_tp(findings);
  check_load_balancer(findings);
  check_without_shards(findings);
}

}  // namespace triax
