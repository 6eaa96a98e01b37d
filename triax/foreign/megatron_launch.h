// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/megatron_arguments.h"

namespace triax {

/// A command that starts Megatron-LM, and how its words split.
struct LaunchCommand {
  const std::vector<ShellField>& fields;
  size_t script = 0;  // == first_argument: none was seen
  size_t first_argument = 0;
};

/// "#SBATCH --nodes=4": what a script says of itself, by the option's name.
std::map<std::string, std::string> read_batch_lines(std::string_view text);

/// Variables that Slurm sets from those options.
std::map<std::string, std::string> slurm_variables(
    const std::map<std::string, std::string>& options);

/// The section "launch": "nodes", "ranks-per-node", "world" and "script", as
/// far as the words before the script say them; "world-is-a-setting" where the
/// nodes come from a variable of the script. `batch`: read_batch_lines().
ConfigTable read_launch(const LaunchCommand& command,
                        const std::map<std::string, std::string>& batch,
                        const PositionOf& position_of);

}  // namespace triax
