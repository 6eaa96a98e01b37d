// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "triax/base/saturating.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/nanotron_rules.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/text_cursor.h"

namespace triax {
namespace {

const std::string kModel = "model.model_config.";
constexpr int64_t kMaxDegree = 1 << 20;

int64_t degree(const Whole& fact) {
  return std::clamp<int64_t>(fact.value_or(1), 1, kMaxDegree);
}

// ParallelContext needs them all above 0; the loader does not look.
void check_positive(ForeignFindings& findings) {
  for (const char* key : {"parallelism.dp",
                          "parallelism.pp",
                          "parallelism.tp",
                          "parallelism.expert_parallel_size",
                          "parallelism.context_parallel_size",
                          "tokens.sequence_length",
                          "tokens.train_steps",
                          "tokens.micro_batch_size",
                          "tokens.batch_accumulation_per_replica",
                          "checkpoints.checkpoint_interval",
                          "logging.iteration_step_info_interval"}) {
    const Whole value = whole_at(findings.config, key);
    if (value && *value < 1) {
      findings.error("out-of-range",
                     key,
                     fmt::format("{} must be at least 1", *value),
                     "use 1 or more",
                     Effect::kFailsLater);
    }
  }
}

// TensorParallelLinearMode[x.upper()].
void check_tp_mode(ForeignFindings& findings) {
  const std::string key = "parallelism.tp_mode";
  const std::string mode =
      lower(word_at(findings.config, key).value_or("all_reduce"));
  if (mode != "all_reduce" && mode != "reduce_scatter") {
    findings.error("unknown-value",
                   key,
                   fmt::format("there is no mode {}", in_quotes(mode)),
                   "use ALL_REDUCE or REDUCE_SCATTER");
  }
}

// Config.__post_init__: what is divisible, and KV heads that reach for tp.
void check_heads(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const int64_t heads = facts.heads.value_or(0);
  const int64_t kv_heads = facts.kv_heads.value_or(0);
  if (heads < 1 || kv_heads < 1) {
    return;
  }
  const Effect effect = nanotron_assert_effect(findings);
  const int64_t tp = degree(facts.tp);
  if (heads % kv_heads != 0) {
    findings.error(
        "kv-heads-divide-heads",
        kModel + "num_key_value_heads",
        fmt::format("{} heads do not split over {} KV heads", heads, kv_heads),
        fmt::format("use a divisor of {}", heads),
        effect);
  }
  if (heads % tp == 0 && (kv_heads < tp || kv_heads % tp != 0)) {
    findings.error("kv-heads-divide",
                   "parallelism.tp",
                   fmt::format("{} KV heads do not split over tp {}, and "
                               "nanotron holds none twice",
                               kv_heads,
                               tp),
                   fmt::format("use a divisor of {}", kv_heads),
                   kv_heads < tp ? effect : Effect::kFailsLater);
  }
}

// The classes of the positions assert it, or multiply by angles that are one
// element wider than the head.
void check_rotary(ForeignFindings& findings) {
  const int64_t hidden = findings.facts.hidden.value_or(0);
  const int64_t heads = findings.facts.heads.value_or(0);
  const std::string name = nanotron_model_class(findings.config);
  const bool has_rope =
      name == "llama" || name == "qwen2" ||
      (name == "starcoder2" &&
       flag_at(findings.config, kModel + "use_rotary_embeddings")
           .value_or(false));
  if (!has_rope || hidden < 1 || heads < 1 || hidden % heads != 0 ||
      hidden / heads % 2 == 0) {
    return;
  }
  findings.error("head-dim-odd",
                 kModel + "num_attention_heads",
                 fmt::format("hidden_size {} / num_attention_heads {} = {} "
                             "elements a head, and RoPE turns pairs of them",
                             hidden,
                             heads,
                             hidden / heads),
                 "use another number of heads, or another hidden_size",
                 Effect::kFailsLater);
}

// Sequences are cut over cp, and under REDUCE_SCATTER over tp.
void check_sequence(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const int64_t length = facts.sequence.value_or(0);
  const int64_t parts =
      degree(facts.cp) * (*facts.sequence_parallel ? degree(facts.tp) : 1);
  if (length < 1 || length % parts == 0) {
    return;
  }
  findings.error("sequence-too-long",
                 "tokens.sequence_length",
                 fmt::format("{} does not split over cp {}{}",
                             length,
                             degree(facts.cp),
                             *facts.sequence_parallel
                                 ? fmt::format(" and tp {} (REDUCE_SCATTER)",
                                               degree(facts.tp))
                                 : ""),
                 fmt::format("use {} or {}",
                             std::max<int64_t>(1, length / parts) * parts,
                             saturating_round_up(length, parts)),
                 Effect::kFailsLater);
}

// models/base.py: the blocks in their order, each on the stage whose share of
// the costs it still begins in; the costs are those of get_block_compute_costs.
void check_stages(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const std::string name = nanotron_model_class(findings.config);
  const auto size = [](const Whole& fact) {
    return static_cast<double>(
        std::clamp<int64_t>(fact.value_or(0), 0, kMaxDegree));
  };
  const int64_t pp = facts.pp.value_or(1);
  const int64_t layers = facts.layers.value_or(0);
  const double hidden = size(facts.hidden);
  const double ffn = size(facts.ffn);
  const double head = size(facts.vocabulary) * hidden;
  if ((name != "llama" && name != "qwen2") || pp < 2 || layers < pp ||
      layers > kMaxDegree || hidden < 1 || ffn < 1 || head < 1 ||
      facts.experts.value_or(0) > 0) {
    return;
  }
  const double layer = 4 * hidden * hidden + 3 * ffn * hidden;
  const double share =
      (static_cast<double>(layers) * layer + head) / static_cast<double>(pp);
  std::vector<int64_t> stages(static_cast<size_t>(pp), 0);
  size_t stage = 0;
  double done = 0.0;
  for (int64_t i = 0; i < layers; ++i) {
    ++stages[stage];
    done += layer;
    stage += done > share * static_cast<double>(stage + 1) ? 1 : 0;
  }
  // The head lies on the last stage, but beside few layers of a large one.
  if (stage + 1 == stages.size()) {
    note_slowest_stage(findings,
                       "parallelism.pp",
                       stages,
                       "use a smaller pp, or more layers: nanotron spreads "
                       "them itself");
  }
}

void check_experts(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const std::string moe = kModel + "moe_config";
  const int64_t experts = facts.experts.value_or(0);
  const int64_t ep = degree(facts.ep);
  if (!findings.is_set(moe) && ep > 1 && !is_old_nanotron(findings.config)) {
    findings.error("refused-combination",
                   "parallelism.expert_parallel_size",
                   fmt::format("{} and the model has no moe_config", ep),
                   "use 1",
                   Effect::kFailsLater);
  }
  const Whole top = whole_at(findings.config, moe + ".top_k");
  if (top && experts > 0 && *top > experts) {
    findings.error("out-of-range",
                   moe + ".top_k",
                   fmt::format("{} of {} experts", *top, experts),
                   fmt::format("use at most {}", experts),
                   Effect::kFailsLater);
  }
}

// The assertions of Qwen2Config and Starcoder2Config.
void check_attention(ForeignFindings& findings) {
  const auto text = [&](const char* name) {
    return word_at(findings.config, kModel + name).value_or("");
  };
  const std::string attention = findings.is_set(kModel + "_attn_implementation")
                                    ? text("_attn_implementation")
                                    : "flash_attention_2";
  if (findings.is_set(kModel + "flex_attention_mask") &&
      !text("flex_attention_mask").empty() && attention != "flex_attention") {
    findings.error("refused-combination",
                   kModel + "flex_attention_mask",
                   fmt::format("it needs flex_attention, not {}", attention),
                   "set _attn_implementation: flex_attention");
  }
  const Whole window =
      whole_at(findings.config, kModel + "sliding_window_size");
  if (window && nanotron_model_class(findings.config) == "qwen2" &&
      attention != "flex_attention" && attention != "flash_attention_2" &&
      attention != "llama3_ring_attention") {
    findings.error("refused-combination",
                   kModel + "sliding_window_size",
                   fmt::format("{} has no sliding window", attention),
                   "use flash_attention_2 or flex_attention");
  }
  const Whole every = whole_at(findings.config, kModel + "no_rope_layer");
  const int64_t layers = findings.facts.layers.value_or(0);
  if (every && *every > 0 && layers > 0 && layers % *every != 0) {
    findings.error(
        "refused-combination",
        kModel + "no_rope_layer",
        fmt::format("{} layers are no multiple of {}", layers, *every),
        fmt::format("use a divisor of {}", layers));
  }
  if (flag_at(findings.config, kModel + "grouped_query").value_or(false) &&
      !whole_at(findings.config, kModel + "num_kv_heads")) {
    findings.error("missing-key",
                   kModel + "num_kv_heads",
                   "grouped_query needs it",
                   "add it");
  }
}

}  // namespace

void check_nanotron_model(ForeignFindings& findings) {
  check_positive(findings);
  check_tp_mode(findings);
  check_heads(findings);
  check_rotary(findings);
  check_stages(findings);
  check_sequence(findings);
  check_experts(findings);
  check_attention(findings);
}

}  // namespace triax
