// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/foreign/megatron_shell_state.h"
#include "triax/foreign/megatron_shell_syntax.h"

namespace triax {

/// Adds a command to `runs`, if it has arguments with dashes and does not only
/// show them. `fields`: its words, expanded.
void record_run(const ShellNode& node,
                const std::vector<ShellField>& fields,
                ShellState& state,
                std::vector<ShellRun>& runs);

}  // namespace triax
