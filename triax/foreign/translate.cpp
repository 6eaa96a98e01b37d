// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "triax/base/json.h"
#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

// A fact without its type: its name in triax's words, and its value.
struct NamedFact {
  std::string name;
  Json value;  // null: not said
  std::string key;
  bool is_default = false;
};

template <class T>
void add(std::vector<NamedFact>& named, const char* name, const Fact<T>& fact) {
  NamedFact entry{name, nullptr, fact.key, fact.is_default};
  if (fact) {
    entry.value = *fact;
  }
  named.push_back(std::move(entry));
}

std::vector<NamedFact> name_all(const RunFacts& facts) {
  std::vector<NamedFact> named;
  add(named, "tp", facts.tp);
  add(named, "pp", facts.pp);
  add(named, "cp", facts.cp);
  add(named, "ep", facts.ep);
  add(named, "expert_tp", facts.expert_tp);
  add(named, "dp", facts.dp);
  add(named, "sequence_parallel", facts.sequence_parallel);
  add(named, "zero_stage", facts.zero_stage);
  add(named, "schedule", facts.schedule);
  add(named, "chunks", facts.chunks);
  add(named, "first_stage_layers", facts.first_stage_layers);
  add(named, "last_stage_layers", facts.last_stage_layers);
  add(named, "microbatch", facts.microbatch);
  add(named, "accumulation", facts.accumulation);
  add(named, "global_batch", facts.global_batch);
  add(named, "offload_optimizer", facts.offload_optimizer);
  add(named, "offload_parameters", facts.offload_parameters);
  add(named, "bucket_elements", facts.bucket_elements);
  add(named, "overlap_reduce", facts.overlap_reduce);
  add(named, "precision", facts.precision);
  add(named, "loss_scale", facts.loss_scale);
  add(named, "recompute", facts.recompute);
  add(named, "layers", facts.layers);
  add(named, "hidden", facts.hidden);
  add(named, "ffn", facts.ffn);
  add(named, "heads", facts.heads);
  add(named, "kv_heads", facts.kv_heads);
  add(named, "head_dim", facts.head_dim);
  add(named, "vocabulary", facts.vocabulary);
  add(named, "experts", facts.experts);
  add(named, "sequence", facts.sequence);
  add(named, "max_positions", facts.max_positions);
  add(named, "tied", facts.tied);
  add(named, "gated", facts.gated);
  add(named, "learned_positions", facts.learned_positions);
  add(named, "norm", facts.norm);
  add(named, "optimizer", facts.optimizer);
  add(named, "lr", facts.lr);
  add(named, "min_lr", facts.min_lr);
  add(named, "weight_decay", facts.weight_decay);
  add(named, "clipping", facts.clipping);
  add(named, "beta1", facts.beta1);
  add(named, "beta2", facts.beta2);
  add(named, "adam_eps", facts.adam_eps);
  add(named, "lr_schedule", facts.lr_schedule);
  add(named, "warmup_steps", facts.warmup_steps);
  add(named, "steps", facts.steps);
  add(named, "seed", facts.seed);
  return named;
}

// The batch that follows from the others, where one is left out.
void complete_batch(RunFacts& facts) {
  const int64_t micro = facts.microbatch.value_or(0);
  const int64_t dp = facts.dp.value_or(0);
  const int64_t steps = facts.accumulation.value_or(0);
  const int64_t global = facts.global_batch.value_or(0);
  constexpr int64_t kMax = 1 << 20;
  if (micro < 1 || dp < 1 || micro > kMax || dp > kMax || steps > kMax) {
    return;
  }
  if (global < 1 && steps > 0) {
    facts.global_batch = {micro * dp * steps, "", {}, false};
  } else if (steps < 1 && global > 0 && global % (micro * dp) == 0) {
    facts.accumulation = {global / (micro * dp), "", {}, false};
  }
}

// "(from zero_optimization.stage)".
std::string origin(const NamedFact& fact) {
  return fact.key.empty() ? "" : fmt::format(" (from {})", fact.key);
}

bool says_nothing(const NamedFact& fact) {
  static const std::set<std::string> kNeutral = {
      "tp", "pp", "cp", "ep", "expert_tp", "chunks"};
  return fact.value.is_null() || fact.value == Json("none") ||
         fact.value == Json(false) ||
         (kNeutral.contains(fact.name) && fact.value == Json(1)) ||
         (fact.name == "loss_scale" && fact.value == Json(0.0));
}

}  // namespace

Translation translate(const RunFacts& said, System to) {
  RunFacts facts = said;
  complete_batch(facts);
  TargetWriter writer = make_writer(to);
  Translation result;
  for (const NamedFact& fact : name_all(facts)) {
    if (fact.value.is_null()) {
      continue;
    }
    const std::string why = writer.write(fact.name, fact.value);
    if (!why.empty() && !says_nothing(fact) && !fact.is_default) {
      result.lost.push_back(fmt::format(
          "{} {}{}: {}", fact.name, dump_json(fact.value), origin(fact), why));
    }
  }
  result.text = writer.text();
  return result;
}

}  // namespace triax
