// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triax/config/problem.h"
#include "triax/config/value.h"

namespace triax {

struct ParsedToml {
  ConfigTable table;
  /// Rule "syntax"; the table is then empty.
  std::optional<Problem> problem;
};

/// Parses a TOML document by toml++ into values that know their places. Never
/// throws for what the text holds; nesting is bounded before the parser, which
/// recurses, sees the text.
ParsedToml parse_toml(std::string_view text, const std::string& file);

/// The value of one override, "2" or "[1, 2]". What is not TOML and does not
/// begin as a list, a table or a quoted text is a text: a bare word.
/// Positions are "command line". nullopt: not a value.
std::optional<ConfigValue> parse_override(const std::string& text);

}  // namespace triax
