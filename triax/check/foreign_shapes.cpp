// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/rounding.h"
#include "triax/base/units.h"
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
      findings.error("world-size",
                     degree->key,
                     fmt::format("{} {} is more than {}",
                                 degree->key,
                                 **degree,
                                 counted(world, "rank")),
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
  if (world < rest && layout.is_world_a_setting) {
    findings.note("world-size",
                  key_of(blamed, ""),
                  fmt::format("{} take more than the {} that the script says "
                              "by default",
                              product,
                              counted(world, "rank")),
                  fmt::format("start it on a multiple of {} ranks; --world "
                              "checks the rest",
                              rest));
    return;
  }
  if (world < rest || world % rest != 0) {
    findings.error(
        "world-size",
        key_of(blamed, ""),
        world < rest
            ? fmt::format("{} cannot hold {}", counted(world, "rank"), product)
            : fmt::format("{} ranks do not split over {}: {} would "
                          "have no place",
                          world,
                          product,
                          world % rest),
        fmt::format("use degrees whose product is {}", dividing(world)),
        effect);
    return;
  }
  // nanotron 0.4 counts ep as an axis of its own, later ones within dp.
  const bool may_have_experts =
      findings.config.system == System::kNanotron && facts.ep.value_or(1) > 1;
  if (may_have_experts) {
    findings.not_judged(
        "whether dp * tp * pp is the world: ep counts in it or "
        "not, by nanotron's version");
  } else if (facts.dp.is_set() && *facts.dp > 0 && *facts.dp != world / rest) {
    findings.error("world-size",
                   key_of(facts.dp, ""),
                   fmt::format("dp {} * ({}) does not make {}",
                               *facts.dp,
                               product,
                               counted(world, "rank")),
                   fmt::format("use dp {}", world / rest),
                   effect);
  }
}

// Whether several tp ranks hold one KV head where there are fewer than ranks.
bool shares_kv_heads(System system) {
  return system != System::kTorchTitan && system != System::kNanotron;
}

void check_kv_heads(ForeignFindings& findings, int64_t tp, const Sizes& sizes) {
  const RunFacts& facts = findings.facts;
  const System system = findings.config.system;
  if (facts.heads.is_set() && facts.kv_heads.is_set() &&
      is_size(facts.kv_heads) && *facts.heads % *facts.kv_heads != 0) {
    findings.error("kv-heads-divide-heads",
                   facts.kv_heads.key,
                   fmt::format("{} heads do not split over {} KV heads",
                               *facts.heads,
                               *facts.kv_heads),
                   fmt::format("use {}", dividing(*facts.heads)),
                   Effect::kFailsLater);
  }
  if (!is_size(sizes.kv_heads) || *sizes.kv_heads % tp == 0 ||
      (shares_kv_heads(system) && tp % *sizes.kv_heads == 0)) {
    return;
  }
  findings.error(
      "kv-heads-divide",
      key_of(facts.tp, ""),
      shares_kv_heads(system)
          ? fmt::format("{} KV heads neither split over tp {} nor does it hold "
                        "each of them the same number of times",
                        *sizes.kv_heads,
                        tp)
          : fmt::format("{} KV heads do not split over tp {}, and no rank "
                        "holds a copy of another's",
                        *sizes.kv_heads,
                        tp),
      fmt::format("use tp = {}", dividing(*sizes.kv_heads)),
      shape_effect(system));
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
  check_kv_heads(findings, tp, sizes);
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

// Where nobody pads it: systems that do say a multiple of their own.
void check_vocabulary(ForeignFindings& findings, const Layout& layout) {
  const RunFacts& facts = findings.facts;
  const bool is_unpadded = findings.config.system == System::kMegatron &&
                           facts.vocabulary_multiple.is_set() &&
                           *facts.vocabulary_multiple == 1 &&
                           facts.vocabulary_multiple.key == "no-pad-vocab-size";
  if (!is_unpadded || !is_size(facts.vocabulary) ||
      *facts.vocabulary % layout.tp == 0) {
    return;
  }
  findings.error("heads-divide",
                 facts.vocabulary.key,
                 fmt::format("a vocabulary of {} does not split over tp {}, "
                             "and --no-pad-vocab-size leaves it so",
                             *facts.vocabulary,
                             layout.tp),
                 "remove --no-pad-vocab-size",
                 Effect::kFailsLater);
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

// DeepSpeed's partition_balanced gives the first stages one layer more.
std::vector<int64_t> balanced_stages(int64_t layers, int64_t stages) {
  std::vector<int64_t> each(static_cast<size_t>(stages), layers / stages);
  for (int64_t i = 0; i < layers % stages; ++i) {
    ++each[static_cast<size_t>(i)];
  }
  return each;
}

std::string uneven_text(int64_t layers, int64_t stages) {
  const int64_t most = divide_up(layers, stages);
  const int64_t full = layers % stages;
  return fmt::format(
      "{} layers over {} stages: {} {} layers and {} {}, where the layers are "
      "spread evenly; every step waits for the larger ones, so {:.0f} % of the "
      "time of the others is lost",
      layers,
      stages,
      full == 1 ? "stage 1 has" : fmt::format("stages 1 to {} have", full),
      most,
      stages - full == 1 ? "the last" : "the others",
      most - 1,
      100.0 / static_cast<double>(most));
}

void note_uneven_stages(ForeignFindings& findings,
                        const std::string& key,
                        int64_t layers,
                        int64_t stages,
                        bool is_interleaved) {
  const std::string fix = fmt::format("use a pp of {}", dividing(layers));
  const size_t num_before = findings.problems.size();
  if (!is_interleaved && stages <= kMaxListed) {
    note_slowest_stage(findings, key, balanced_stages(layers, stages), fix);
  }
  if (findings.problems.size() == num_before) {
    findings.note(
        "stages-fit", key, uneven_text(layers, stages), fix, Effect::kSlow);
  }
}

// A first and a last stage of their own; those between them are equal.
void check_ends(ForeignFindings& findings, int64_t pp, int64_t layers) {
  const Whole& first = findings.facts.first_stage_layers;
  const Whole& last = findings.facts.last_stage_layers;
  const bool has_first = first.is_set();
  const bool has_last = last.is_set();
  const int64_t middle = pp - (has_first ? 1 : 0) - (has_last ? 1 : 0);
  if ((!has_first && !has_last) || pp > kMaxListed || middle < 0 ||
      (has_first && !is_size(first)) || (has_last && !is_size(last))) {
    return;
  }
  const int64_t rest =
      layers - (has_first ? *first : 0) - (has_last ? *last : 0);
  if (rest < 0 || (middle > 0 && rest % middle != 0)) {
    return;  // Megatron-LM's own rule says it
  }
  std::vector<int64_t> stages(static_cast<size_t>(pp),
                              middle > 0 ? rest / middle : 0);
  if (has_first) {
    stages.front() = *first;
  }
  if (has_last) {
    stages.back() = *last;
  }
  note_slowest_stage(findings, has_last ? last.key : first.key, stages);
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
    findings.error("layers-fewer-than-stages",
                   key,
                   fmt::format("{} cannot fill {} stages",
                               counted(*sizes.layers, "layer"),
                               stages),
                   fmt::format("use a pp of at most {}", *sizes.layers),
                   shape_effect(findings.config.system));
  } else if (*sizes.layers % stages != 0 && !is_listed) {
    note_uneven_stages(findings, key, *sizes.layers, stages, chunks > 1);
  } else {
    check_ends(findings, layout.pp, *sizes.layers);
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
    const bool is_asserted = findings.config.system == System::kMegatron;
    const bool is_learned = facts.learned_positions.value_or(false);
    // Rotary positions go on beyond what the model's config names.
    findings.add(
        {is_asserted || is_learned ? Severity::kError : Severity::kWarning,
         "sequence-too-long",
         facts.sequence.key,
         {},
         fmt::format("sequences of {} tokens, and the model has {} positions "
                     "({})",
                     length,
                     *sizes.positions,
                     key_of(sizes.positions, "--model")),
         fmt::format("use at most {}", *sizes.positions),
         is_asserted  ? Effect::kRefused
         : is_learned ? Effect::kFailsLater
                      : Effect::kSilentlyDifferent,
         {}});
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
  check_vocabulary(findings, layout);
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
