// SPDX-License-Identifier: Apache-2.0
#include "triax/check/foreign_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "triax/check/foreign_bounds.h"
#include "triax/check/foreign_rules.h"
#include "triax/check/nanotron_rules.h"
#include "triax/check/torchtitan_rules.h"

namespace triax {
namespace {

struct SystemRules {
  System system;
  void (*check)(ForeignFindings&);
};

// One row for each system whose rules are written.
constexpr SystemRules kRules[] = {
    {System::kDeepSpeed, check_deepspeed},
    {System::kTorchTitan, check_torchtitan},
    {System::kNanotron, check_nanotron},
    {System::kMegatron, check_megatron},
    {System::kMegatron, check_megatron_deepspeed},
};

bool is_unreadable(const Problem& problem) {
  return problem.rule == "unreadable" || problem.rule == "syntax";
}

// A value that was refused is not judged again by what it means.
void drop_consequences(std::vector<Problem>& problems) {
  std::set<std::string> refused;
  for (const Problem& problem : problems) {
    if (problem.rule == "wrong-type" || problem.rule == "out-of-range" ||
        problem.rule == "unknown-value") {
      refused.insert(problem.field);
    }
  }
  std::set<std::string> seen;
  std::erase_if(problems, [&](const Problem& problem) {
    return refused.contains(problem.field) &&
           !seen.insert(problem.field).second;
  });
}

// A number that is out of its range says nothing of another key's.
std::string subject_of(const Problem& problem) {
  return problem.rule +
         (problem.rule == "out-of-range" ? " " + problem.field : "");
}

// A system's own rule knows more than the one that all share. What is slow is
// many things under one name.
void drop_repeats(std::vector<Problem>& problems, size_t num_own) {
  std::set<std::string> said;
  for (size_t i = 0; i < num_own; ++i) {
    if (problems[i].rule != "slow-choice") {
      said.insert(subject_of(problems[i]));
    }
  }
  const auto begin = problems.begin() + static_cast<std::ptrdiff_t>(num_own);
  problems.erase(std::remove_if(begin,
                                problems.end(),
                                [&said](const Problem& problem) {
                                  return said.contains(subject_of(problem));
                                }),
                 problems.end());
}

// --world as far as a run may have it.
ForeignContext bounded_context(ForeignContext context) {
  if (context.world && (*context.world < 1 || *context.world > kMostSize)) {
    context.world = std::nullopt;
  }
  return context;
}

}  // namespace

ForeignReport check_foreign(const ForeignConfig& config,
                            const ForeignContext& context) {
  ForeignReport report;
  report.problems = config.problems;
  if (std::any_of(
          report.problems.begin(), report.problems.end(), is_unreadable)) {
    return report;
  }
  // DeepSpeed's rules bound their numbers where they use them.
  const std::optional<BoundedConfig> bounded =
      config.system == System::kDeepSpeed ? std::nullopt
                                          : without_absurd_numbers(config);
  const ForeignConfig& judged = bounded ? bounded->config : config;
  const SystemEntry* entry = find_system(config.system);
  const RunFacts facts = entry == nullptr ? RunFacts{} : entry->facts(judged);
  const ForeignContext known = bounded_context(context);
  ForeignFindings findings(judged, facts, known);
  if (bounded) {
    findings.problems = bounded->problems;
  }
  for (const SystemRules& rules : kRules) {
    if (rules.system == config.system) {
      rules.check(findings);
    }
  }
  const size_t num_own = findings.problems.size();
  check_foreign_batch(findings);
  if (!context.other) {
    check_foreign_shapes(findings);
  }
  check_foreign_choices(findings);
  check_foreign_optimizer(findings);
  check_foreign_memory(findings);
  drop_repeats(findings.problems, num_own);
  drop_consequences(findings.problems);
  report.problems.insert(report.problems.end(),
                         findings.problems.begin(),
                         findings.problems.end());
  report.unjudged = findings.unjudged;
  sort_problems(report.problems);
  if (findings.num_left_out > 0) {
    report.problems.push_back(
        {Severity::kNote,
         "left-out",
         "",
         {config.file, 0, 0},
         fmt::format("{} more findings are left out; mend these first",
                     findings.num_left_out)});
  }
  return report;
}

}  // namespace triax
