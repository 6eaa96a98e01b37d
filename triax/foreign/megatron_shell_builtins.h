// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "triax/foreign/megatron_shell_expansion.h"
#include "triax/foreign/megatron_shell_state.h"

namespace triax {

/// Commands of the shell itself that set variables, known or not: unset, let,
/// read, mapfile, printf -v, getopts, shift, set, source, eval of what another
/// command prints.
class ShellBuiltins {
 public:
  ShellBuiltins(ShellState& state, ShellExpansion& expansion)
      : state_(state), expansion_(expansion) {}

  /// Whether the command is one of them and was followed.
  bool run(const std::vector<ShellField>& fields);

  /// (( formula )) and let: "N = 2 * M", "N += 1", "N++"; the variables of
  /// longer ones are not known afterwards.
  void assign_formula(std::string_view formula, size_t offset);

 private:
  void set_unknown(const std::string& name, size_t offset);
  void read_names(const std::vector<ShellField>& fields, size_t begin);
  void shift(const std::vector<ShellField>& fields);
  void set_arguments(const std::vector<ShellField>& fields);

  ShellState& state_;
  ShellExpansion& expansion_;
};

/// Whether a script that reads this file may take its settings from there;
/// those of a shell or of an environment's switch hold none.
bool may_hold_settings(const ShellField& file);

}  // namespace triax
