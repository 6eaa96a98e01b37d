// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "triax/check/findings.h"
#include "triax/check/foreign_rules.h"

namespace triax {
namespace {

constexpr int64_t kMaxProduct = int64_t{1} << 40;

// The degree that the batch is split over.
struct Replicas {
  std::optional<int64_t> count;
  std::string from;
  bool has_world = false;     // it is said, though the layout may not fit it
  bool is_a_setting = false;  // some multiple of it may be meant
};

Replicas replicas_of(const ForeignFindings& findings) {
  const Layout layout = layout_of(findings);
  return {layout.dp,
          layout.dp_text,
          layout.world.has_value(),
          layout.is_world_a_setting};
}

bool is_sane(const Whole& fact) {
  return !fact || (*fact > 0 && *fact < kMaxProduct);
}

std::string nearest_multiples(int64_t number, int64_t of) {
  const int64_t below = number / of * of;
  return below == 0 ? fmt::format("{}", of)
                    : fmt::format("{} or {}", below, below + of);
}

// The batch that follows where tp, pp and cp ranks are counted as replicas too,
// or ZeRO as an axis beside dp.
std::string wrong_count_text(const ForeignFindings& findings,
                             int64_t product,
                             const Replicas& replicas) {
  const Layout layout = layout_of(findings);
  const int64_t global = *findings.facts.global_batch;
  if (product < 1 || global % product != 0 || !layout.world ||
      *layout.world != *replicas.count * (global / product) ||
      *layout.world == *replicas.count) {
    return "";
  }
  return fmt::format(
      "; it counts all {} ranks as replicas, and ZeRO is no axis of its own: "
      "the ranks of one tp, pp and cp group take the same samples",
      *layout.world);
}

// The three and the degree are all there.
void check_product(ForeignFindings& findings, const Replicas& replicas) {
  const RunFacts& facts = findings.facts;
  const int64_t product =
      *facts.microbatch * *facts.accumulation * *replicas.count;
  if (*facts.global_batch == product) {
    return;
  }
  if (replicas.is_a_setting && *facts.global_batch % product == 0) {
    findings.not_judged(fmt::format(
        "the batch sizes ask for {} times the ranks that the script says by "
        "default: give --world to compare it",
        *facts.global_batch / product));
    return;
  }
  std::string fix = fmt::format("use {} = {}", facts.global_batch.key, product);
  const int64_t step = *facts.microbatch * *replicas.count;
  if (*facts.global_batch % step == 0) {
    fix += fmt::format(
        ", or {} = {}", facts.accumulation.key, *facts.global_batch / step);
  }
  findings.error("batch-triangle",
                 facts.global_batch.key,
                 fmt::format("{} {} * {} {} * {} = {}, not {} {}{}",
                             facts.microbatch.key,
                             *facts.microbatch,
                             facts.accumulation.key,
                             *facts.accumulation,
                             replicas.from,
                             product,
                             facts.global_batch.key,
                             *facts.global_batch,
                             wrong_count_text(findings, product, replicas)),
                 fix);
}

// Whether `factor` (times dp, where it is known) divides the global batch.
void check_divides(ForeignFindings& findings,
                   const std::string& what,
                   int64_t factor,
                   const Replicas& replicas) {
  const RunFacts& facts = findings.facts;
  const int64_t unit = factor * replicas.count.value_or(1);
  if (unit <= 1 || *facts.global_batch % unit == 0) {
    return;
  }
  std::string product = what;
  if (replicas.count) {
    product += (product.empty() ? "" : " * ") + replicas.from;
  }
  if (product.find('*') != std::string::npos) {
    product += fmt::format(" = {}", unit);
  }
  findings.error(
      "batch-triangle",
      facts.global_batch.key,
      fmt::format("{} {} is not a multiple of {}",
                  facts.global_batch.key,
                  *facts.global_batch,
                  product),
      fmt::format("use {}", nearest_multiples(*facts.global_batch, unit)));
}

std::string named(const Whole& fact) {
  return fmt::format("{} {}", fact.key, *fact);
}

void check_given(ForeignFindings& findings, const Replicas& replicas) {
  const RunFacts& facts = findings.facts;
  const Whole& micro = facts.microbatch;
  const Whole& steps = facts.accumulation;
  if (micro && steps && replicas.count) {
    check_product(findings, replicas);
  } else if (micro && steps) {
    check_divides(findings,
                  named(micro) + " * " + named(steps),
                  *micro * *steps,
                  replicas);
    if (!replicas.has_world && *facts.global_batch % (*micro * *steps) == 0) {
      findings.not_judged(fmt::format(
          "the batch sizes ask for dp = {} / ({} * {}) = {}: give --world to "
          "compare it",
          *facts.global_batch,
          *micro,
          *steps,
          *facts.global_batch / (*micro * *steps)));
    }
  } else if (micro) {
    check_divides(findings, named(micro), *micro, replicas);
  } else if (steps) {
    check_divides(findings, named(steps), *steps, replicas);
  } else {
    check_divides(findings, "", 1, replicas);
  }
  if (!replicas.count && !replicas.has_world && !(micro && steps)) {
    findings.not_judged(
        layout_of(findings).is_partly_known
            ? "whether the global batch splits over the data-parallel ranks: "
              "tp, pp and cp are not all known"
            : "whether the global batch splits over the data-parallel ranks: "
              "give --world");
  }
}

}  // namespace

void check_foreign_batch(ForeignFindings& findings) {
  const RunFacts& facts = findings.facts;
  if (!is_sane(facts.global_batch) || !is_sane(facts.microbatch) ||
      !is_sane(facts.accumulation)) {
    return;
  }
  const Replicas replicas = replicas_of(findings);
  const double product = static_cast<double>(facts.microbatch.value_or(1)) *
                         static_cast<double>(facts.accumulation.value_or(1)) *
                         static_cast<double>(replicas.count.value_or(1));
  if (!facts.global_batch || product > static_cast<double>(kMaxProduct)) {
    return;
  }
  check_given(findings, replicas);
}

}  // namespace triax
