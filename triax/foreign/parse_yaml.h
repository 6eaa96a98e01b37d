// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/config/problem.h"
#include "triax/config/value.h"

namespace triax {

struct ParsedYaml {
  ConfigTable table;
  /// Rule "syntax": the table is then empty. Rule "duplicate-key": a warning
  /// for each key that stands twice; the table holds the last one, as
  /// PyYAML's does.
  std::vector<Problem> problems;
};

/// Parses one YAML document by yaml-cpp into the values that PyYAML's safe
/// loader makes of it (YAML 1.1: `yes` is true, `1e-4` a text, `010` eight),
/// with anchors, aliases and merge keys put in place. null is a
/// ForeignValue "null", a date another.
///
/// Never throws for what the text holds. Size, nesting and the number of
/// values (an alias counts as what it stands for) are bounded; the nesting
/// before the parser, which recurses, sees the text.
ParsedYaml parse_yaml(std::string_view text, const std::string& file);

/// What PyYAML's safe loader makes of a plain (unquoted) scalar.
ConfigValue resolve_yaml_scalar(const std::string& text,
                                const Position& position);

}  // namespace triax
