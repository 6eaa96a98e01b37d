// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "triax/check/findings.h"
#include "triax/config/name_pattern.h"
#include "triax/config/pattern_setting.h"
#include "triax/config/problem.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

// The logical names of one stored parameter: q, k and v are stored as one.
using StoredNames = std::vector<std::string>;

std::vector<StoredNames> stored_names(const ModelConfig& model) {
  std::vector<StoredNames> all;
  for (const ParameterLayout& layout : whole_model_layouts(model, /*tp=*/1)) {
    StoredNames names;
    for (const Piece& piece : layout.pieces) {
      if (std::find(names.begin(), names.end(), piece.logical_name) ==
          names.end()) {
        names.push_back(piece.logical_name);
      }
    }
    all.push_back(std::move(names));
  }
  return all;
}

void check_matches(Findings& findings,
                   const std::vector<StoredNames>& stored,
                   const std::string& key,
                   const std::string& pattern) {
  for (const StoredNames& names : stored) {
    for (const std::string& name : names) {
      if (matches_pattern(pattern, name)) {
        return;
      }
    }
  }
  findings.error("pattern-matches-nothing",
                 key,
                 in_quotes(pattern) + " matches no parameter",
                 fmt::format("patterns match whole names like {}, with * and ?",
                             stored.back().front()));
}

// One line for each distinct way of splitting, not one for each layer.
void check_fused(Findings& findings, const std::vector<StoredNames>& stored) {
  const OptimizerConfig& optimizer = findings.config.optimizer;
  for (const StoredNames& names : stored) {
    const PatternSetting first = pattern_setting(optimizer, names.front());
    for (const std::string& name : names) {
      const PatternSetting other = pattern_setting(optimizer, name);
      if (other == first) {
        continue;
      }
      const bool is_freeze = other.is_frozen != first.is_frozen;
      findings.error("pattern-splits-fused",
                     is_freeze ? "optimizer.freeze" : "optimizer.group",
                     fmt::format("{} and {} are stored as one parameter, and "
                                 "the patterns treat them differently",
                                 names.front(),
                                 name),
                     fmt::format("cover all of {} alike, or none",
                                 fmt::join(names, ", ")));
      return;
    }
  }
}

void check_something_trains(Findings& findings,
                            const std::vector<StoredNames>& stored) {
  for (const StoredNames& names : stored) {
    if (!pattern_setting(findings.config.optimizer, names.front()).is_frozen) {
      return;
    }
  }
  findings.error("nothing-to-train",
                 "optimizer.freeze",
                 "every parameter is frozen",
                 "leave at least one to train");
}

}  // namespace

void check_patterns(Findings& findings) {
  const OptimizerConfig& optimizer = findings.config.optimizer;
  if (optimizer.freeze.empty() && optimizer.group.empty()) {
    return;
  }
  const std::vector<StoredNames> stored = stored_names(findings.config.model);
  for (const std::string& pattern : optimizer.freeze) {
    check_matches(findings, stored, "optimizer.freeze", pattern);
  }
  for (const OptimizerGroup& group : optimizer.group) {
    check_matches(findings, stored, "optimizer.group", group.pattern);
  }
  check_fused(findings, stored);
  check_something_trains(findings, stored);
}

}  // namespace triax
