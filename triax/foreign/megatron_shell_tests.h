// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triax/foreign/megatron_shell.h"

namespace triax {

/// What [ … ], [[ … ]] or test says of its words, brackets taken off; nullopt:
/// it depends on what is not known, or on files. A variable that nothing sets
/// counts as empty for -z and -n.
std::optional<bool> judge_shell_test(const std::vector<ShellField>& words);

}  // namespace triax
