// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/saturating.h"
#include "triax/check/divisors.h"
#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr int64_t kMaxListed = 1 << 20;

bool is_size(const Whole& fact) {
  return fact && *fact > 0;
}

// The key that says a degree, for the finding's place.
std::string key_of(const Whole& fact, const char* or_else) {
  return fact.key.empty() ? or_else : fact.key;
}

void check_world(ForeignFindings& findings, const Layout& layout) {
  if (!layout.world) {
    return;
  }
  const RunFacts& facts = findings.facts;
  const int64_t world = *layout.world;
  const Effect effect = shape_effect(findings.config.system);
  for (const Whole* degree : {&facts.tp, &facts.pp, &facts.cp}) {
    if (degree->is_set() && **degree > std::max(world, kMaxListed)) {
      findings.error(
          "world-size",
          degree->key,
          fmt::format(
              "{} {} is more than the {} ranks", degree->key, **degree, world),
          fmt::format("use {}", dividing(world)),
          effect);
      return;
    }
  }
  const int64_t rest = layout.tp * layout.pp * layout.cp;
  const std::string product = fmt::format(
      "tp {} * pp {} * cp {} = {}", layout.tp, layout.pp, layout.cp, rest);
  const Whole& blamed = layout.tp > 1   ? facts.tp
                        : layout.pp > 1 ? facts.pp
                                        : facts.cp;
  if (world < rest || world % rest != 0) {
    findings.error(
        "world-size",
        key_of(blamed, ""),
        world < rest ? fmt::format("{} ranks are fewer than {}", world, product)
                     : fmt::format("{} ranks do not split over {}: {} would "
                                   "have no place",
                                   world,
                                   product,
                                   world % rest),
        fmt::format("use degrees whose product is {}", dividing(world)),
        effect);
    return;
  }
  const int64_t all = saturating_multiply(facts.dp.value_or(0), rest);
  if (facts.dp.is_set() && *facts.dp > 0 && all != world) {
    findings.error("world-size",
                   key_of(facts.dp, ""),
                   fmt::format("dp {} * {} = {} ranks, and {} are there",
                               *facts.dp,
                               product,
                               all,
                               world),
                   fmt::format("use dp {}", world / rest),
                   effect);
  }
}

void check_heads(ForeignFindings& findings,
                 const Layout& layout,
                 const Sizes& sizes) {
  const std::string key = key_of(findings.facts.tp, "");
  const Effect effect = shape_effect(findings.config.system);
  const int64_t tp = layout.tp;
  if (is_size(sizes.heads) && *sizes.heads % tp != 0) {
    findings.error(
        "heads-divide",
        key,
        fmt::format(
            "{} attention heads do not split over tp {}", *sizes.heads, tp),
        fmt::format("use tp = {}", dividing(*sizes.heads)),
        effect);
    return;
  }
  if (is_size(sizes.kv_heads) && *sizes.kv_heads % tp != 0 &&
      tp % *sizes.kv_heads != 0) {
    findings.error("kv-heads-divide",
                   key,
                   fmt::format("{} KV heads neither split over tp {} nor does "
                               "it hold each of them the same number of times",
                               *sizes.kv_heads,
                               tp),
                   fmt::format("use tp = {}", dividing(*sizes.kv_heads)),
                   effect);
  }
  if (is_size(sizes.ffn) && *sizes.ffn % tp != 0) {
    findings.error("hidden-heads",
                   key,
                   fmt::format("the feed-forward's {} columns do not split "
                               "over tp {}",
                               *sizes.ffn,
                               tp),
                   "use a multiple, or another tp",
                   effect);
  }
}

void check_head_dim(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (is_size(facts.hidden) && is_size(facts.heads) && !facts.head_dim &&
      *facts.hidden % *facts.heads != 0) {
    findings.error(
        "hidden-heads",
        facts.hidden.key,
        fmt::format("{} {} is no multiple of {} {}",
                    facts.hidden.key,
                    *facts.hidden,
                    facts.heads.key,
                    *facts.heads),
        fmt::format("use {} = {}", facts.heads.key, dividing(*facts.hidden)),
        shape_effect(findings.config.system));
  }
}

// Layers of the fullest stage, and the emptiest.
std::string uneven_text(int64_t layers, int64_t stages) {
  const int64_t most = divide_up(layers, stages);
  return fmt::format(
      "{} layers over {} stages: {} stages of {} and {} of {}; every step "
      "waits for the larger ones, so {:.0f} % of the time of the others is "
      "lost",
      layers,
      stages,
      layers % stages,
      most,
      stages - layers % stages,
      most - 1,
      100.0 / static_cast<double>(most));
}

void check_stages(ForeignFindings& findings,
                  const Layout& layout,
                  const Sizes& sizes) {
  const RunFacts& facts = findings.facts;
  if (layout.pp < 2 || !is_size(sizes.layers)) {
    return;
  }
  const std::string key = key_of(facts.pp, "");
  const int64_t chunks =
      std::clamp<int64_t>(facts.chunks.value_or(1), 1, kMaxListed);
  const int64_t stages = layout.pp * chunks;
  const bool is_listed = facts.first_stage_layers.is_set() ||
                         facts.last_stage_layers.is_set() ||
                         facts.has_custom_stages.value_or(false);
  if (*sizes.layers < stages) {
    findings.error(
        "layers-fewer-than-stages",
        key,
        fmt::format("{} layers cannot fill {} stages", *sizes.layers, stages),
        fmt::format("use a pp of at most {}", *sizes.layers),
        shape_effect(findings.config.system));
  } else if (*sizes.layers % stages != 0 && !is_listed) {
    findings.note("stages-fit",
                  key,
                  uneven_text(*sizes.layers, stages),
                  fmt::format("use a pp of {}", dividing(*sizes.layers)),
                  Effect::kSlow);
  }
}

void check_sequence(ForeignFindings& findings,
                    const Layout& layout,
                    const Sizes& sizes) {
  const RunFacts& facts = findings.facts;
  if (!is_size(facts.sequence)) {
    return;
  }
  const int64_t length = *facts.sequence;
  if (is_size(sizes.positions) && length > *sizes.positions) {
    const bool is_learned = facts.learned_positions.value_or(false);
    findings.error(
        "sequence-too-long",
        facts.sequence.key,
        fmt::format("sequences of {} tokens, and the model has {} "
                    "positions ({})",
                    length,
                    *sizes.positions,
                    key_of(sizes.positions, "--model")),
        fmt::format("use at most {}", *sizes.positions),
        is_learned ? Effect::kFailsLater : Effect::kSilentlyDifferent);
  }
  const bool splits = facts.sequence_parallel.value_or(false);
  const int64_t parts =
      (layout.cp > 1 ? 2 * layout.cp : 1) * (splits ? layout.tp : 1);
  const bool is_split_by_ends = findings.config.system != System::kDeepSpeed;
  if (is_split_by_ends && parts > 1 && length % parts != 0) {
    findings.error("sequence-too-long",
                   facts.sequence.key,
                   fmt::format("sequences of {} tokens do not split into {} "
                               "parts (cp {}{})",
                               length,
                               parts,
                               layout.cp,
                               splits ? fmt::format(", tp {}", layout.tp) : ""),
                   fmt::format("use a multiple of {}", parts),
                   shape_effect(findings.config.system));
  }
}

void check_experts(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (is_size(facts.experts) && is_size(facts.ep) &&
      *facts.experts % *facts.ep != 0) {
    findings.error(
        "heads-divide",
        facts.ep.key,
        fmt::format(
            "{} experts do not split over ep {}", *facts.experts, *facts.ep),
        fmt::format("use ep = {}", dividing(*facts.experts)),
        shape_effect(findings.config.system));
  }
}

void check_against_model(ForeignFindings& findings) {
  if (!findings.context.model) {
    return;
  }
  const ModelConfig& model = *findings.context.model;
  const RunFacts& facts = findings.facts;
  const auto compare = [&](const Whole& fact, int64_t other) {
    if (fact.is_set() && other > 0 && *fact != other) {
      findings.warning("pair-conflict",
                       fact.key,
                       fmt::format("{} here, and {} in {}",
                                   *fact,
                                   other,
                                   findings.context.model_file),
                       "give the model that is meant",
                       Effect::kSilentlyDifferent);
    }
  };
  compare(facts.layers, model.num_hidden_layers);
  compare(facts.hidden, model.hidden_size);
  compare(facts.heads, model.num_attention_heads);
  compare(facts.kv_heads, model.num_key_value_heads);
}

}  // namespace

void check_foreign_shapes(ForeignFindings& findings) {
  const Layout layout = layout_of(findings);
  const Sizes sizes = sizes_of(findings);
  check_world(findings, layout);
  check_heads(findings, layout, sizes);
  check_head_dim(findings);
  check_stages(findings, layout, sizes);
  check_sequence(findings, layout, sizes);
  check_experts(findings);
  check_against_model(findings);
  const bool is_split = layout.tp > 1 || layout.pp > 1;
  if (is_split && !is_size(sizes.heads)) {
    findings.not_judged(
        "whether heads and layers split over tp and pp: give --model");
  }
}

}  // namespace triax
