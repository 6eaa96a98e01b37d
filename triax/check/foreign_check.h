// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triax/check/foreign_findings.h"

namespace triax {

struct ForeignReport {
  /// Those of the reader, then those of the rules, ordered by place.
  std::vector<Problem> problems;
  /// What no rule could judge, and what it would need; one clause each.
  std::vector<std::string> unjudged;
};

/// Every problem of one config. Pure arithmetic: no file is opened.
ForeignReport check_foreign(const ForeignConfig& config,
                            const ForeignContext& context = {});

/// Every problem of two configs of one run (Megatron-LM's arguments and a
/// DeepSpeed JSON): of each alone, the DeepSpeed one in the other's layout,
/// and what they say against each other.
ForeignReport check_pair(const ForeignConfig& first,
                         const ForeignConfig& second,
                         const ForeignContext& context = {});

/// What --reference shows: whether the learning rate of a run has followed the
/// batch of the run that it was made from, of any two systems. nullopt: it has,
/// or nothing changed; a note "not-judged": one of them does not say enough.
std::optional<Problem> compare_with_reference(const RunFacts& facts,
                                              const RunFacts& reference);

}  // namespace triax
