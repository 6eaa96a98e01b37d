// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

/// A variable that a script reads and nothing sets, and one of nearly the same
/// name that it sets and never reads.
struct MisspeltVariable {
  std::string name;
  std::string near;
  size_t offset = 0;       // of the first reading
  size_t near_offset = 0;  // where the other is set
};

/// By the script's text, in its order. Where a name stands in any other way
/// (for, read, export, another program's text, a default in ${NAME:-…}) it
/// counts as set and as read; a script that reads other scripts has none.
std::vector<MisspeltVariable> misspelt_variables(std::string_view text);

}  // namespace triax
