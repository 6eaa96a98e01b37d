// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "triax/foreign/megatron_shell_state.h"
#include "triax/foreign/megatron_shell_syntax.h"

namespace triax {

/// What words stand for in a script's present state: variables, arrays,
/// defaults, arithmetic; ${X:=1} sets the variable.
class ShellExpansion {
 public:
  explicit ShellExpansion(ShellState& state) : state_(state) {}

  std::vector<ShellField> expand(const ShellWord& word);
  std::vector<ShellField> expand(const std::vector<ShellWord>& words);
  /// One field whatever the word holds, as in an assignment.
  ShellField expand_whole(const ShellWord& word);
  std::optional<int64_t> arithmetic(std::string_view formula);

 private:
  ShellState& state_;
};

}  // namespace triax
