// SPDX-License-Identifier: Apache-2.0
#include "triax/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "triax/base/error.h"
#include "triax/check/findings.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

bool stops_checking(const Problem& problem) {
  return problem.rule == "unreadable" || problem.rule == "syntax";
}

std::set<std::string> refused_fields(const LoadedConfig& loaded) {
  std::set<std::string> names;
  for (const Problem& problem : loaded.problems) {
    if (problem.severity == Severity::kError) {
      names.insert(problem.field);
    }
  }
  return names;
}

// Errors of files and of time: no byte of the run hangs on them.
bool leaves_bytes_known(const Problem& problem) {
  static constexpr std::string_view kRules[] = {"data-path",
                                                "data-too-short",
                                                "deadline-too-short",
                                                "loss-scale-order",
                                                "lr-order",
                                                "pattern-matches-nothing",
                                                "pattern-splits-fused",
                                                "run-dir-exists",
                                                "validation-missing",
                                                "warmup-steps"};
  // Their values are out of range or of another type: the loader keeps the
  // default.
  static constexpr std::string_view kFields[] = {"comm.deadline",
                                                 "data.path",
                                                 "data.validation",
                                                 "optimizer.betas",
                                                 "optimizer.decay_steps",
                                                 "optimizer.eps",
                                                 "optimizer.lr",
                                                 "optimizer.min_lr",
                                                 "optimizer.warmup_steps",
                                                 "optimizer.weight_decay",
                                                 "run.dir",
                                                 "training.gradient_clipping",
                                                 "training.seed",
                                                 "training.steps",
                                                 "training.validate_every"};
  const auto holds = [](const auto& list, const std::string& name) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  return problem.severity != Severity::kError || holds(kRules, problem.rule) ||
         (holds(kFields, problem.field) && problem.rule != "unknown-key");
}

bool are_bytes_known(const std::vector<Problem>& problems) {
  return std::all_of(problems.begin(), problems.end(), leaves_bytes_known);
}

bool has_rule(const std::vector<Problem>& problems, const std::string& rule) {
  return std::any_of(
      problems.begin(), problems.end(), [&](const Problem& problem) {
        return problem.rule == rule;
      });
}

void run_rules(Findings& findings) {
  // Sizes that a config.json did not give are defaults, nobody's mistake.
  const bool has_model = !has_rule(findings.loaded().problems, "hf-config");
  if (has_model) {
    check_model(findings);
    check_layout(findings);
    check_zero_group(findings);
    check_offload_states(findings);
  }
  const bool has_sizes = has_model && !findings.has_error();
  check_batch(findings);
  check_training(findings);
  check_no_effect(findings);
  check_machine(findings);
  check_deadline_floor(findings);
  if (findings.options.looks_at_files) {
    check_files(findings);
  }
  if (has_sizes) {
    check_patterns(findings);
  }
  if (are_bytes_known(findings.problems) &&
      are_bytes_known(findings.loaded().problems)) {
    check_memory(findings);
    if (!has_rule(findings.problems, "deadline-too-short")) {
      check_deadline(findings);
    }
    check_zero_buckets(findings);
    if (findings.options.looks_at_files) {
      check_offload_folder(findings);
    }
    check_zero_units(findings);
  }
}

}  // namespace

std::string Findings::derivation(const std::string& key) const {
  const auto found = loaded_.derived.find(key);
  if (is_set(key) || found == loaded_.derived.end()) {
    return "";
  }
  const std::string name = key.substr(key.rfind('.') + 1);
  return fmt::format(" ({} was derived from {})", name, found->second);
}

void Findings::add(Problem problem) {
  TRIAX_CHECK(is_rule(problem.rule), problem.rule);
  problem.position = loaded_.position_of(problem.field);
  problems.push_back(std::move(problem));
}

void Findings::error(const std::string& rule,
                     const std::string& key,
                     const std::string& message,
                     const std::string& fix) {
  add({Severity::kError, rule, key, {}, message, fix});
}

void Findings::warning(const std::string& rule,
                       const std::string& key,
                       const std::string& message,
                       const std::string& fix) {
  add({Severity::kWarning, rule, key, {}, message, fix});
}

void Findings::note(const std::string& rule,
                    const std::string& key,
                    const std::string& message,
                    const std::string& fix) {
  add({Severity::kNote, rule, key, {}, message, fix});
}

std::vector<Problem> check_run(const LoadedConfig& loaded,
                               const CheckOptions& options) {
  std::vector<Problem> problems = loaded.problems;
  for (const Problem& problem : problems) {
    TRIAX_CHECK(is_rule(problem.rule), problem.rule);
  }
  if (std::any_of(problems.begin(), problems.end(), stops_checking)) {
    return problems;
  }
  Findings findings(loaded, options);
  run_rules(findings);
  const std::set<std::string> refused = refused_fields(loaded);
  for (Problem& problem : findings.problems) {
    if (!refused.contains(problem.field)) {
      problems.push_back(std::move(problem));
    }
  }
  sort_problems(problems);
  return problems;
}

}  // namespace triax
