// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "triax/foreign/megatron_launch.h"
#include "triax/foreign/megatron_shell.h"

namespace triax {

/// Arguments that a training run cannot do without; other tools of
/// Megatron-LM's share the rest.
std::span<const std::string_view> megatron_telling_keys();

/// A command that may be the training, and how its words split.
struct MegatronRun {
  const ShellRun* run = nullptr;
  size_t first_argument = 0;
  size_t script = 0;  // == first_argument: no script was seen
  int num_known = 0;
  bool is_telling = false;
  bool is_bare = false;  // it begins with an argument: no command at all

  LaunchCommand command() const {
    return {run->fields, script, first_argument};
  }
};

/// The commands of a script that may be one; they point into `runs`.
std::vector<MegatronRun> find_megatron_runs(const ShellRuns& runs);

/// The one with the most arguments that Megatron-LM knows; nullptr: none is.
const MegatronRun* best_megatron_run(const std::vector<MegatronRun>& runs);

}  // namespace triax
