// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace triax {

struct YamlPrescanFinding {
  int line = 0;
  int column = 0;
  std::string message;
};

struct YamlPrescan {
  std::optional<YamlPrescanFinding> finding;
  /// Where a quote opens that nothing closes, if it is one: yaml-cpp takes
  /// such a text, PyYAML refuses it. Line 0: nowhere.
  int open_quote_line = 0;
  int open_quote_column = 0;
};

/// What must not reach a recursive YAML parser, and what PyYAML's reader
/// refuses before it parses: bytes that are no UTF-8, control characters and
/// nesting, of brackets or of indents, beyond 64 levels. Without recursion.
YamlPrescan prescan_yaml(std::string_view text);

}  // namespace triax
