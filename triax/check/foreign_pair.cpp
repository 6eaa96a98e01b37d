// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/check/foreign_check.h"
#include "triax/check/foreign_deepspeed_rules.h"
#include "triax/check/foreign_rules.h"
#include "triax/config/problem.h"
#include "triax/foreign/megatron_arguments_view.h"

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

std::string said(const Word& fact) {
  return fact.key == *fact ? *fact : fmt::format("{} {}", fact.key, *fact);
}

std::string place_of(const Position& position) {
  return position.line == 0
             ? position.file
             : fmt::format("{}:{}", position.file, position.line);
}

// The DeepSpeed JSON of a run, and what its other file says.
struct Pair {
  ForeignFindings& findings;
  const RunFacts& here;
  const RunFacts& there;
  const ForeignConfig& other;
};

void add_conflict(Pair& pair,
                  Severity severity,
                  const std::string& key,
                  const Position& position,
                  const std::string& message,
                  const std::string& fix,
                  Effect effect) {
  Problem problem{severity, "pair-conflict", key, position};
  problem.message = message;
  problem.fix = fix;
  problem.effect = effect;
  pair.findings.add(std::move(problem));
}

// A fact that both say, and say differently.
template <class T>
bool compare(Pair& pair,
             Severity severity,
             const Fact<T>& here,
             const Fact<T>& there,
             const std::string& what_happens = "") {
  if (!here.is_set() || !there.is_set() || *here == *there) {
    return false;
  }
  add_conflict(pair,
               severity,
               here.key,
               here.position,
               fmt::format("{}, and {} in {}{}",
                           said(here),
                           said(there),
                           place_of(there.position),
                           what_happens.empty() ? "" : "; " + what_happens),
               "write the same in both",
               Effect::kSilentlyDifferent);
  return true;
}

// What each step is made of. The program tells the engine its own global
// batch before each step, and the engine goes on to divide it by its own
// micro batch.
void check_batch(Pair& pair) {
  const bool is_micro = compare(pair,
                                Severity::kError,
                                pair.here.microbatch,
                                pair.there.microbatch,
                                "the engine counts its own, and the data come "
                                "in the other's");
  const bool is_global = compare(pair,
                                 Severity::kError,
                                 pair.here.global_batch,
                                 pair.there.global_batch,
                                 "the arguments' is what each step takes");
  const Whole& global = pair.there.global_batch;
  const Whole& micro = pair.there.microbatch;
  const Whole& steps = pair.here.accumulation;
  const Layout layout = layout_of(pair.findings);
  const std::optional<int64_t>& dp = layout.dp;
  if (is_micro || is_global || !global.is_set() || !micro.is_set() ||
      !steps.is_set() || !dp || *dp < 1 || *micro < 1 ||
      *micro > *global / *dp) {
    return;
  }
  const int64_t count = *global / *dp / *micro;
  // On more ranks than a script says by default the count is a part of this.
  const bool may_fit =
      layout.is_world_a_setting && *steps > 0 && count % *steps == 0;
  if (count != *steps && !may_fit) {
    add_conflict(pair,
                 Severity::kError,
                 steps.key,
                 steps.position,
                 fmt::format("{}, and {} / ({} * dp {}) = {} in {}",
                             said(steps),
                             said(global),
                             said(micro),
                             *dp,
                             count,
                             place_of(global.position)),
                 fmt::format("use {}", count),
                 Effect::kSilentlyDifferent);
  }
}

// The engine runs in the JSON's precision, on a model made in the other's.
void check_precision(Pair& pair) {
  const Word& here = pair.here.precision;
  const Word& there = pair.there.precision;
  if (compare(pair, Severity::kError, here, there) || !here || !there ||
      *here == *there || *there == "fp8") {
    return;
  }
  if (here.is_default) {
    add_conflict(pair,
                 Severity::kError,
                 *there,
                 {},
                 fmt::format("it is left out, and the model is made in {} by "
                             "{}; the engine then stops at a parameter that "
                             "is not fp32",
                             *there,
                             place_of(there.position)),
                 fmt::format("add \"{}\": {{\"enabled\": true}}", *there),
                 Effect::kFailsLater);
  } else {
    add_conflict(pair,
                 Severity::kWarning,
                 here.key,
                 here.position,
                 fmt::format("{}, and no argument of {} asks for it, so the "
                             "rest of the program takes {}",
                             *here,
                             there.position.file,
                             *there),
                 fmt::format("add --{}", *here),
                 Effect::kSilentlyDifferent);
  }
}

void check_stage(Pair& pair) {
  const Whole& here = pair.here.zero_stage;
  const Whole& there = pair.there.zero_stage;
  if (compare(
          pair, Severity::kWarning, here, there, "the engine takes its own") ||
      !here.is_default || !there.is_set() || *here == *there) {
    return;
  }
  add_conflict(
      pair,
      Severity::kWarning,
      here.key,
      {},
      fmt::format(
          "it is left out, so the engine takes {}, and {} "
          "says {}:{}",
          *here,
          there.key,
          *there,
          there.position.line == 0 ? "" : " " + place_of(there.position)),
      fmt::format("set {} to {}", here.key, *there),
      Effect::kSilentlyDifferent);
}

void check_clipping(Pair& pair) {
  const Real& here = pair.here.clipping;
  const Real& there = pair.there.clipping;
  if (compare(
          pair, Severity::kWarning, here, there, "the engine takes its own") ||
      !here.is_default || !there.is_set()) {
    return;
  }
  const std::string& version = pair.findings.context.version;
  const double clip = deepspeed_default_clipping(version);
  if (*there != clip) {
    add_conflict(pair,
                 Severity::kWarning,
                 here.key,
                 {},
                 fmt::format("it is left out, so DeepSpeed {} {}, and {} in {}",
                             version.empty() ? "0.19.8" : version,
                             clip > 0.0 ? fmt::format("clips at {}", clip)
                                        : std::string("does not clip"),
                             said(there),
                             place_of(there.position)),
                 fmt::format("set gradient_clipping to {}", *there),
                 Effect::kSilentlyDifferent);
  }
}

// The engine asks the program's groups and does not read its own degree.
void check_sequence_parallel(Pair& pair) {
  const Whole& here = pair.here.cp;
  const Whole there = whole_at(pair.other, "ds-sequence-parallel-size");
  if (!here.is_set() || *here == there.value_or(1)) {
    return;
  }
  add_conflict(pair,
               Severity::kWarning,
               here.key,
               here.position,
               there ? fmt::format("{}, and {} in {}; the program's holds",
                                   said(here),
                                   said(there),
                                   place_of(there.position))
                     : fmt::format("{}, and {} makes no such groups, which "
                                   "are what holds",
                                   said(here),
                                   pair.other.file),
               fmt::format("add --ds-sequence-parallel-size {}, or leave it "
                           "out",
                           *here),
               Effect::kIgnored);
}

void check_pipeline(Pair& pair) {
  const Whole& stage = pair.here.zero_stage;
  if (stage.value_or(0) < 2 || pair.findings.is_set("pipeline")) {
    return;
  }
  const std::string pipeline = deepspeed_pipeline_text(pair.other);
  if (!pipeline.empty()) {
    pair.findings.error(
        "pipeline-zero",
        stage.key,
        fmt::format("zero stage {} with {} in {}: DeepSpeed's pipeline engine "
                    "asserts a stage below 2",
                    *stage,
                    pipeline,
                    pair.other.file),
        "use stage 1, or --no-pipeline-parallel",
        Effect::kFailsLater);
  }
}

// What DeepSpeed's JSON says is what its engine does; Megatron's arguments
// then hold for the rest of the program alone.
void check_both(Pair pair) {
  check_batch(pair);
  check_precision(pair);
  check_stage(pair);
  check_clipping(pair);
  check_sequence_parallel(pair);
  check_pipeline(pair);
  compare(pair, Severity::kWarning, pair.here.lr, pair.there.lr);
  compare(pair,
          Severity::kWarning,
          pair.here.weight_decay,
          pair.there.weight_decay);
  compare(pair, Severity::kWarning, pair.here.steps, pair.there.steps);
}

bool is_readable(const ForeignReport& report) {
  for (const Problem& problem : report.problems) {
    if (problem.rule == "unreadable" || problem.rule == "syntax") {
      return false;
    }
  }
  return true;
}

void append_problems(ForeignReport& report, const std::vector<Problem>& more) {
  report.problems.insert(report.problems.end(), more.begin(), more.end());
}

// The clauses of the pair's second file, without what the first has said.
void append_clauses(ForeignReport& report,
                    const ForeignReport& inner,
                    const std::string& file) {
  const auto end = report.unjudged.end();
  std::vector<std::string> more;
  for (const std::string& clause : inner.unjudged) {
    if (std::find(report.unjudged.begin(), end, clause) == end) {
      more.push_back(fmt::format("{}: {}", file, clause));
    }
  }
  report.unjudged.insert(report.unjudged.end(), more.begin(), more.end());
}

}  // namespace

ForeignReport check_pair(const ForeignConfig& first,
                         const ForeignConfig& second,
                         const ForeignContext& context) {
  const bool is_first = first.system == System::kDeepSpeed;
  const ForeignConfig& deepspeed = is_first ? first : second;
  const ForeignConfig& other = is_first ? second : first;
  const RunFacts there = facts_of(other);
  ForeignContext merged = context;
  if (deepspeed.system == System::kDeepSpeed) {
    merged.other = there;
  }
  // The version is DeepSpeed's.
  ForeignContext others = context;
  others.version.clear();
  others.is_version_given = false;
  others.is_of_pair = true;
  ForeignReport report = check_foreign(other, others);
  const ForeignReport inner = check_foreign(deepspeed, merged);
  const bool both = is_readable(report) && is_readable(inner) && merged.other;
  append_problems(report, inner.problems);
  append_clauses(report, inner, deepspeed.file);
  if (both) {
    const RunFacts here = facts_of(deepspeed);
    ForeignFindings findings(deepspeed, here, merged);
    check_both({findings, here, there, other});
    append_problems(report, findings.problems);
  }
  sort_problems(report.problems);
  return report;
}

}  // namespace triax
