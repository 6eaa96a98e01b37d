// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/check/foreign_check.h"
#include "triax/check/foreign_rules.h"
#include "triax/config/problem.h"

namespace triax {
namespace {

RunFacts facts_of(const ForeignConfig& config) {
  const SystemEntry* entry = find_system(config.system);
  return entry == nullptr ? RunFacts{} : entry->facts(config);
}

template <class T>
std::string said(const Fact<T>& fact) {
  return fmt::format("{} {}", fact.key, *fact);
}

std::string place_of(const Position& position) {
  return position.line == 0
             ? position.file
             : fmt::format("{}:{}", position.file, position.line);
}

// A fact that both say, and say differently.
template <class T>
void compare(ForeignFindings& findings,
             const Fact<T>& here,
             const Fact<T>& there,
             Effect effect) {
  if (!here.is_set() || !there.is_set() || *here == *there) {
    return;
  }
  Problem problem{
      effect == Effect::kRefused ? Severity::kError : Severity::kWarning,
      "pair-conflict",
      here.key,
      here.position};
  problem.message = fmt::format(
      "{}, and {} in {}", said(here), said(there), place_of(there.position));
  problem.fix = "write the same in both";
  problem.effect = effect;
  findings.add(std::move(problem));
}

// What DeepSpeed's JSON says is what its engine does; Megatron's arguments
// then hold for the rest of the program alone.
void check_same(ForeignFindings& findings, const RunFacts& other) {
  const RunFacts& facts = findings.facts;
  compare(findings, facts.microbatch, other.microbatch, Effect::kRefused);
  compare(findings, facts.global_batch, other.global_batch, Effect::kRefused);
  compare(
      findings, facts.zero_stage, other.zero_stage, Effect::kSilentlyDifferent);
  compare(
      findings, facts.precision, other.precision, Effect::kSilentlyDifferent);
  compare(findings, facts.clipping, other.clipping, Effect::kSilentlyDifferent);
  compare(findings, facts.lr, other.lr, Effect::kSilentlyDifferent);
  compare(findings,
          facts.weight_decay,
          other.weight_decay,
          Effect::kSilentlyDifferent);
  compare(findings, facts.steps, other.steps, Effect::kSilentlyDifferent);
}

void check_clipping(ForeignFindings& findings, const RunFacts& megatron) {
  const Real& here = findings.facts.clipping;
  if (here.is_default && megatron.clipping && *megatron.clipping != *here) {
    findings.warning(
        "pair-conflict",
        "gradient_clipping",
        fmt::format("it is left out, so DeepSpeed 0.19.8 clips at {}, and "
                    "{} says {}",
                    *here,
                    megatron.clipping.key,
                    *megatron.clipping),
        fmt::format("set gradient_clipping to {}", *megatron.clipping),
        Effect::kSilentlyDifferent);
  }
}

void check_pipeline(ForeignFindings& findings, const RunFacts& megatron) {
  const int64_t stage = findings.facts.zero_stage.value_or(0);
  if (megatron.pp && *megatron.pp > 1 && stage >= 2 &&
      !findings.is_set("pipeline")) {
    findings.error(
        "pipeline-zero",
        findings.facts.zero_stage.key,
        fmt::format("zero stage {} with {} {} in {}: DeepSpeed's pipeline "
                    "engine asserts a stage below 2",
                    stage,
                    megatron.pp.key,
                    *megatron.pp,
                    megatron.file),
        "use stage 1",
        Effect::kFailsLater);
  }
}

ForeignContext with_layout(const ForeignContext& context,
                           const RunFacts& other) {
  ForeignContext merged = context;
  merged.tp = other.tp.value;
  merged.pp = other.pp.value;
  merged.cp = other.cp.value;
  if (!merged.world) {
    merged.world = other.world.value;
  }
  return merged;
}

bool is_readable(const ForeignReport& report) {
  for (const Problem& problem : report.problems) {
    if (problem.rule == "unreadable" || problem.rule == "syntax") {
      return false;
    }
  }
  return true;
}

}  // namespace

ForeignReport check_pair(const ForeignConfig& first,
                         const ForeignConfig& second,
                         const ForeignContext& context) {
  const bool is_first = first.system == System::kDeepSpeed;
  const ForeignConfig& deepspeed = is_first ? first : second;
  const ForeignConfig& other = is_first ? second : first;
  const RunFacts other_facts = facts_of(other);
  const ForeignContext merged = with_layout(context, other_facts);
  ForeignReport report = check_foreign(other, context);
  const ForeignReport inner = check_foreign(deepspeed, merged);
  const bool both = is_readable(report) && is_readable(inner) &&
                    deepspeed.system == System::kDeepSpeed;
  report.problems.insert(
      report.problems.end(), inner.problems.begin(), inner.problems.end());
  report.unjudged.insert(
      report.unjudged.end(), inner.unjudged.begin(), inner.unjudged.end());
  if (both) {
    const RunFacts facts = facts_of(deepspeed);
    ForeignFindings findings(deepspeed, facts, merged);
    check_same(findings, other_facts);
    check_clipping(findings, other_facts);
    check_pipeline(findings, other_facts);
    report.problems.insert(report.problems.end(),
                           findings.problems.begin(),
                           findings.problems.end());
  }
  sort_problems(report.problems);
  return report;
}

}  // namespace triax
