// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr int64_t kMaxDegree = 1 << 20;

int64_t degree(const Whole& fact, const std::optional<int64_t>& other) {
  return std::clamp<int64_t>(
      fact.is_set() || !other ? fact.value_or(1) : *other, 1, kMaxDegree);
}

// A script may leave a degree open; other systems' defaults are 1.
bool is_partly_known(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const ForeignContext& context = findings.context;
  return findings.config.system == System::kMegatron &&
         findings.is_set("launch") &&
         ((!facts.tp && !context.tp) || (!facts.pp && !context.pp) ||
          (!facts.cp && !context.cp));
}

// What divides the world besides dp, as far as it is said.
std::string divisor_text(const Layout& layout) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, int64_t of) {
    if (of > 1) {
      parts.push_back(fmt::format("{} {}", name, of));
    }
  };
  add("tp", layout.tp);
  add("pp", layout.pp);
  add("cp", layout.cp);
  return parts.empty() ? "" : fmt::format(" / ({})", fmt::join(parts, " * "));
}

Whole size_or(const Whole& fact, int64_t other, const std::string& file) {
  if (fact.is_set() || other <= 0) {
    return fact;
  }
  return {other, "--model " + file, {}, false};
}

}  // namespace

Layout layout_of(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const ForeignContext& context = findings.context;
  Layout layout;
  layout.tp = degree(facts.tp, context.tp);
  layout.pp = degree(facts.pp, context.pp);
  layout.cp = degree(facts.cp, context.cp);
  layout.world = context.world ? context.world : facts.world.value;
  layout.is_world_a_setting = !context.world && facts.world.is_default;
  const int64_t rest = layout.tp * layout.pp * layout.cp;
  layout.is_partly_known = is_partly_known(findings);
  if (layout.is_partly_known) {
    return layout;
  }
  if (layout.world && *layout.world > 0 && *layout.world % rest == 0) {
    layout.dp = *layout.world / rest;
    layout.dp_text = fmt::format(
        "dp {} ({} ranks{})", *layout.dp, *layout.world, divisor_text(layout));
  } else if (facts.dp && *facts.dp > 0 && !layout.world) {
    layout.dp = *facts.dp;
    layout.dp_text = fmt::format("dp {}", *facts.dp);
  }
  return layout;
}

std::optional<int64_t> num_microbatches(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (facts.accumulation.is_set()) {
    return *facts.accumulation;
  }
  const Layout layout = layout_of(findings);
  if (!facts.global_batch || !facts.microbatch || !layout.dp ||
      *facts.microbatch <= 0 || *facts.microbatch > kMaxDegree) {
    return std::nullopt;
  }
  return *facts.global_batch / (*facts.microbatch * *layout.dp);
}

Sizes sizes_of(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const ModelConfig model = findings.context.model.value_or(ModelConfig{});
  const bool has_model = findings.context.model.has_value();
  const std::string& file = findings.context.model_file;
  const auto size = [&](const Whole& fact, int64_t other) {
    return has_model ? size_or(fact, other, file) : fact;
  };
  return {size(facts.layers, model.num_hidden_layers),
          size(facts.hidden, model.hidden_size),
          size(facts.ffn, model.intermediate_size),
          size(facts.heads, model.num_attention_heads),
          size(facts.kv_heads, model.num_key_value_heads),
          size(facts.vocabulary, model.vocab_size),
          size(facts.max_positions, model.max_position_embeddings)};
}

Effect shape_effect(System system) {
  // Megatron-LM and nanotron assert it as they start; others find out when
  // the shards are made.
  return system == System::kMegatron || system == System::kNanotron
             ? Effect::kRefused
             : Effect::kFailsLater;
}

}  // namespace triax
