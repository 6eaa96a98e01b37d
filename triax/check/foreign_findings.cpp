// SPDX-License-Identifier: Apache-2.0
#include "triax/check/foreign_findings.h"

#include <algorithm>

#include "triax/base/error.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

// More findings than anybody reads are of a file that is no config.
constexpr size_t kMaxFindings = 1000;

}  // namespace

Problem& ForeignFindings::add(Problem problem) {
  TRIAX_CHECK(is_rule(problem.rule), problem.rule);
  if (problem.position.file.empty()) {
    const ConfigValue* found = value(problem.field);
    problem.position =
        found == nullptr ? Position{config.file, 0, 0} : found->position;
  }
  if (problems.size() < kMaxFindings) {
    problems.push_back(std::move(problem));
    next_spare_ = problems.size();
    return problems.back();
  }
  ++num_left_out;
  while (problem.severity != Severity::kNote && next_spare_ > 0) {
    Problem& spare = problems[--next_spare_];
    if (spare.severity == Severity::kNote) {
      return spare = std::move(problem);
    }
  }
  return left_out_ = std::move(problem);
}

Problem& ForeignFindings::error(const std::string& rule,
                                const std::string& path,
                                const std::string& message,
                                const std::string& fix,
                                Effect effect) {
  return add({Severity::kError, rule, path, {}, message, fix, effect});
}

Problem& ForeignFindings::warning(const std::string& rule,
                                  const std::string& path,
                                  const std::string& message,
                                  const std::string& fix,
                                  Effect effect) {
  return add({Severity::kWarning, rule, path, {}, message, fix, effect});
}

Problem& ForeignFindings::note(const std::string& rule,
                               const std::string& path,
                               const std::string& message,
                               const std::string& fix,
                               Effect effect) {
  return add({Severity::kNote, rule, path, {}, message, fix, effect});
}

void ForeignFindings::not_judged(const std::string& what) {
  if (std::find(unjudged.begin(), unjudged.end(), what) == unjudged.end()) {
    unjudged.push_back(what);
  }
}

}  // namespace triax
