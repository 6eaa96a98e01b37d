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

/// What two configs of one run say against each other (Megatron arguments and
/// a DeepSpeed JSON); not what each has alone.
ForeignReport check_pair(const ForeignConfig& first,
                         const ForeignConfig& second,
                         const ForeignContext& context = {});

}  // namespace triax
