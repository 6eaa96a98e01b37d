// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/base/units.h"
#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr int64_t kMaxDegree = 1 << 20;

int64_t degree(const Whole& fact, const Whole& other) {
  return std::clamp<int64_t>(
      fact.is_set() || !other ? fact.value_or(1) : *other, 1, kMaxDegree);
}

// A script may leave a degree open; other systems' defaults are 1.
bool is_partly_known(const ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const RunFacts other = findings.context.other.value_or(RunFacts{});
  return findings.config.system == System::kMegatron &&
         findings.is_set("launch") &&
         ((!facts.tp && !other.tp) || (!facts.pp && !other.pp) ||
          (!facts.cp && !other.cp));
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
  const RunFacts other = context.other.value_or(RunFacts{});
  layout.tp = degree(facts.tp, other.tp);
  layout.pp = degree(facts.pp, other.pp);
  layout.cp = degree(facts.cp, other.cp);
  layout.world = context.world ? context.world
                 : facts.world ? facts.world.value
                               : other.world.value;
  layout.is_world_a_setting =
      !context.world &&
      (facts.world ? facts.world.is_default : other.world.is_default);
  const int64_t rest = layout.tp * layout.pp * layout.cp;
  layout.is_partly_known = is_partly_known(findings);
  if (layout.is_partly_known) {
    return layout;
  }
  if (layout.world && *layout.world > 0 && *layout.world % rest == 0) {
    layout.dp = *layout.world / rest;
    layout.dp_text = fmt::format("dp {} ({}{})",
                                 *layout.dp,
                                 counted(*layout.world, "rank"),
                                 divisor_text(layout));
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

double ModelSizes::parameters() const {
  const double attention =
      2.0 * hidden * heads * head_dim + 2.0 * hidden * kv_heads * head_dim;
  const double feed_forward = (is_gated ? 3.0 : 2.0) * hidden * ffn;
  return vocabulary * hidden * (is_tied ? 1.0 : 2.0) +
         layers * (attention + feed_forward);
}

std::optional<ModelSizes> model_sizes_but_vocabulary(
    const ForeignFindings& findings) {
  const RunFacts& own = findings.facts;
  const RunFacts& facts =
      own.layers || !findings.context.other ? own : *findings.context.other;
  const ModelConfig model = findings.context.model.value_or(ModelConfig{});
  const bool has_model = findings.context.model.has_value();
  const auto size = [has_model](const Whole& fact, int64_t of_model) {
    return static_cast<double>(fact ? *fact : has_model ? of_model : 0);
  };
  ModelSizes sizes;
  sizes.layers = size(facts.layers, model.num_hidden_layers);
  sizes.hidden = size(facts.hidden, model.hidden_size);
  sizes.heads = size(facts.heads, model.num_attention_heads);
  sizes.kv_heads = size(facts.kv_heads, model.num_key_value_heads);
  sizes.head_dim = size(facts.head_dim, model.head_dim);
  sizes.ffn = size(facts.ffn, model.intermediate_size);
  sizes.vocabulary = size(facts.vocabulary, model.vocab_size);
  sizes.is_gated = facts.gated.value_or(model.family == ModelFamily::kLlama);
  sizes.is_tied = facts.tied.value_or(has_model && model.tie_word_embeddings);
  if (sizes.kv_heads <= 0.0) {
    sizes.kv_heads = sizes.heads;
  }
  // Megatron-LM's own: two thirds of it for a gated layer, in whole 64s.
  if (sizes.ffn <= 0.0 && facts.system == System::kMegatron) {
    sizes.ffn = sizes.is_gated
                    ? std::floor(4.0 * sizes.hidden * 2.0 / 3.0 / 64.0) * 64.0
                    : 4.0 * sizes.hidden;
  }
  if (sizes.head_dim <= 0.0 && sizes.heads > 0.0) {
    sizes.head_dim = sizes.hidden / sizes.heads;
  }
  const bool is_whole = sizes.layers > 0.0 && sizes.hidden > 0.0 &&
                        sizes.heads > 0.0 && sizes.ffn > 0.0;
  return is_whole ? std::optional<ModelSizes>(sizes) : std::nullopt;
}

std::optional<ModelSizes> model_sizes(const ForeignFindings& findings) {
  const std::optional<ModelSizes> sizes = model_sizes_but_vocabulary(findings);
  return sizes && sizes->vocabulary > 0.0 ? sizes : std::nullopt;
}

std::string_view model_argument(const ForeignFindings& findings) {
  const RunFacts& own = findings.facts;
  const RunFacts other = findings.context.other.value_or(RunFacts{});
  const bool has_shape =
      (own.layers && own.hidden) || (other.layers && other.hidden);
  return has_shape ? "--model for the vocabulary" : "--model";
}

std::string lacking(const std::vector<Need>& needs) {
  std::vector<std::string_view> missing;
  for (const Need& need : needs) {
    if (!need.is_met) {
      missing.push_back(need.argument);
    }
  }
  std::string text;
  for (size_t i = 0; i < missing.size(); ++i) {
    text += i == 0 ? "" : i + 1 == missing.size() ? " and " : ", ";
    text += missing[i];
  }
  return text;
}

Effect shape_effect(System system) {
  // Megatron-LM and nanotron assert it as they start; others find out when
  // the shards are made.
  return system == System::kMegatron || system == System::kNanotron
             ? Effect::kRefused
             : Effect::kFailsLater;
}

}  // namespace triax
