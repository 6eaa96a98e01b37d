// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triax/config/problem.h"
#include "triax/config/value.h"

namespace triax {

struct ParsedHjson {
  /// A table for what DeepSpeed can use; any value as Hjson has it otherwise.
  ConfigValue root;
  /// Rule "syntax"; the root is then an empty table.
  std::optional<Problem> problem;
};

/// Parses a document as the Python package hjson 3.1 does when DeepSpeed loads
/// a config by it: comments (#, //, /* */), words without quotes, commas left
/// out, a root without braces, '''texts of many lines''', 5e8 as the whole
/// number it is, a key twice in one table refused. null is a ForeignValue
/// named "null"; a whole number beyond 64 bits is a double.
///
/// Never throws for what the text holds. Nesting is bounded (Python's own
/// bound lies at a few hundred levels), and NUL bytes are refused.
ParsedHjson parse_hjson(std::string_view text, const std::string& file);

/// A value that the file gives as null.
bool is_null(const ConfigValue& value);

}  // namespace triax
