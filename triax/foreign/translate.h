// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triax/foreign/run_facts.h"

namespace triax {

struct Translation {
  /// The config in the other system's own form: JSON, arguments one a line,
  /// TOML, YAML.
  std::string text;
  /// What the other system has no key for, or what was not carried: one
  /// clause each, with the key it came from.
  std::vector<std::string> lost;
};

/// Writes the same run for another system, from what `facts` say and what
/// follows from them by arithmetic; defaults that nobody wrote are written too
/// where the two systems' defaults may differ.
Translation translate(const RunFacts& facts, System to);

}  // namespace triax
