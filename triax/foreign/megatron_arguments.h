// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/megatron_shell.h"

namespace triax {

using PositionOf = std::function<Position(size_t offset)>;

/// What a command leaves to others.
struct OpenArguments {
  /// Words that may stand for more arguments ("$EXTRA").
  std::vector<std::string> words;
  /// Keys whose value is a default that the caller may replace ("${PP:-1}").
  std::vector<std::string> defaults;
};

/// Adds the arguments among `fields` from `begin` on to the config's table, as
/// argparse would read them, and what it would stop at to the problems.
OpenArguments read_arguments(const std::vector<ShellField>& fields,
                             size_t begin,
                             const PositionOf& position_of,
                             ForeignConfig& config);

}  // namespace triax
