// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "triax/base/units.h"
#include "triax/check/foreign_check.h"
#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr int64_t kLongRun = 10'000;
constexpr int64_t kShortRun = 100;
constexpr double kHeavyBubble = 0.25;

void check_hosts(ForeignFindings& findings, const Layout& layout) {
  if (layout.tp < 2) {
    return;
  }
  if (!findings.context.ranks_on_host) {
    findings.not_judged(
        "whether tp crosses hosts: give --cluster with devices_per_host");
    return;
  }
  const int64_t ranks = *findings.context.ranks_on_host;
  if (ranks % layout.tp == 0) {
    return;
  }
  findings.warning(
      "tp-crosses-hosts",
      findings.facts.tp.key,
      fmt::format("tp {} does not fit into hosts of {} devices: two "
                  "all-reduces a layer, forward and backward, cross the "
                  "network",
                  layout.tp,
                  ranks),
      fmt::format("use a tp that divides {}, and pp across hosts", ranks),
      Effect::kSlow);
}

// Stages of one rank, said or from the layers of each.
int64_t chunks_of(const RunFacts& facts, int64_t pp) {
  if (facts.chunks) {
    return std::max<int64_t>(1, *facts.chunks);
  }
  const int64_t layers = facts.layers.value_or(0);
  const int64_t each = facts.layers_per_chunk.value_or(0);
  return each < 1 || layers / pp < each ? 1 : layers / pp / each;
}

void check_bubble(ForeignFindings& findings, const Layout& layout) {
  const std::optional<int64_t> count = num_microbatches(findings);
  if (layout.pp < 2 || !count || *count < 1) {
    return;
  }
  const int64_t chunks = chunks_of(findings.facts, layout.pp);
  const auto stages = static_cast<double>(layout.pp);
  const double steady =
      static_cast<double>(*count) * static_cast<double>(chunks);
  const double bubble = (stages - 1.0) / (steady + stages - 1.0);
  if (bubble < kHeavyBubble) {
    return;
  }
  // Published runs live with a third of bubble; stages without a microbatch
  // are another matter, but for a run that only tries something.
  const Whole& steps = findings.facts.steps;
  const bool is_short = steps.is_set() && *steps <= kShortRun;
  const Severity severity =
      *count < layout.pp && !is_short ? Severity::kWarning : Severity::kNote;
  findings.add({severity,
                "few-microbatches",
                findings.facts.pp.key,
                {},
                fmt::format("{} over {} stages: (p - 1) / (m v + p - 1) = "
                            "{:.0f} % of the step is bubble",
                            counted(*count, "microbatch"),
                            layout.pp,
                            100.0 * bubble),
                fmt::format("use at least {} microbatches",
                            // Below a quarter, as kHeavyBubble.
                            static_cast<int64_t>(3.0 * (stages - 1.0) /
                                                 static_cast<double>(chunks)) +
                                1),
                Effect::kSlow,
                {}});
}

void check_profile(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (facts.steps.is_set() && *facts.steps >= kLongRun && facts.profiles &&
      !*facts.profiles) {
    findings.note(
        "slow-choice",
        facts.profiles.key.empty() ? facts.steps.key : facts.profiles.key,
        fmt::format("{} steps and no step of them is profiled",
                    format_count(*facts.steps)),
        "profile a few steps near the beginning");
  }
}

// The global batch, where it is said or is the product of what is.
std::optional<int64_t> batch_of(const RunFacts& facts) {
  if (facts.global_batch) {
    return *facts.global_batch;
  }
  if (!facts.microbatch || !facts.accumulation || !facts.dp) {
    return std::nullopt;
  }
  const double product = static_cast<double>(*facts.microbatch) *
                         static_cast<double>(*facts.accumulation) *
                         static_cast<double>(*facts.dp);
  return product > 0 && product < static_cast<double>(int64_t{1} << 53)
             ? std::optional<int64_t>(static_cast<int64_t>(product))
             : std::nullopt;
}

void check_reference(ForeignFindings& findings) {
  if (!findings.context.reference) {
    return;
  }
  std::optional<Problem> problem =
      compare_with_reference(findings.facts, *findings.context.reference);
  if (problem && problem->rule == "not-judged") {
    findings.not_judged(problem->message);
  } else if (problem) {
    findings.add(*std::move(problem));
  }
}

// "3e4" for 3e-4: Adam moves each weight by about the rate in each step.
void check_rate(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  const std::string optimizer = facts.optimizer.value_or("");
  const bool is_adam = optimizer == "adam" || optimizer == "adamw";
  if (!is_adam || !facts.lr.is_set() || !(*facts.lr >= 1.0)) {
    return;
  }
  findings.warning("out-of-range",
                   facts.lr.key,
                   fmt::format("Adam moves each weight by about {:g} in every "
                               "step, where weights are a few hundredths",
                               *facts.lr),
                   "use 1e-3 or less: is the exponent's sign missing?",
                   Effect::kSilentlyDifferent);
}

}  // namespace

std::optional<Problem> compare_with_reference(const RunFacts& facts,
                                              const RunFacts& reference) {
  const std::optional<int64_t> batch = batch_of(facts);
  const std::optional<int64_t> other_batch = batch_of(reference);
  if (!batch || !other_batch || !facts.lr || !reference.lr ||
      *other_batch <= 0 || *batch <= 0) {
    return Problem{Severity::kNote,
                   "not-judged",
                   "",
                   {facts.file, 0, 0},
                   "whether the learning rate follows the batch: both runs "
                   "must say their global batch and lr"};
  }
  const double times =
      static_cast<double>(*batch) / static_cast<double>(*other_batch);
  if (times == 1.0 || *facts.lr != *reference.lr) {
    return std::nullopt;
  }
  return Problem{
      Severity::kWarning,
      "lr-not-scaled",
      facts.lr.key,
      facts.lr.position,
      fmt::format("the global batch is {} and was {} in {}, {:g} times as "
                  "much, and the learning rate stayed {:g}",
                  *batch,
                  *other_batch,
                  reference.file,
                  times,
                  *facts.lr),
      fmt::format("Adam: {:.3g} (by the square root); SGD: {:.3g}",
                  *facts.lr * std::sqrt(times),
                  *facts.lr * times),
      Effect::kSilentlyDifferent,
      {}};
}

void check_foreign_choices(ForeignFindings& findings) {
  const Layout layout = layout_of(findings);
  if (!findings.context.other) {
    check_hosts(findings, layout);
    check_bubble(findings, layout);
  }
  check_profile(findings);
  check_reference(findings);
  check_rate(findings);
}

}  // namespace triax
