// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triax/check/check.h"
#include "triax/config/load.h"

namespace triax {

/// What train and verify have in common on the command line.
struct RunArguments {
  std::string file;
  std::vector<std::string> overrides;
  std::optional<int> num_ranks;
  bool is_quiet = false;
  bool is_verbose = false;
};

/// A config that was checked, and the exit code where it must not run.
struct CheckedConfig {
  LoadedConfig loaded;
  std::optional<int> exit_code;  // 1: errors; 2: unreadable
};

/// What check_run() may judge by: this machine's cores and memory.
CheckOptions this_machine();

/// Loads, resolves, checks, and writes every problem to stderr (with is_quiet
/// only errors; with is_verbose also what was derived). run.dir loses
/// slashes at its end, and gets `dir_suffix` if it is set. `options`: what the
/// check may judge by, this machine if left out.
CheckedConfig load_checked(const RunArguments& arguments,
                           const std::string& dir_suffix = "",
                           const CheckOptions& options = this_machine());

/// 2 for what could not be read, 1 for errors, else 0.
int exit_code_of(const std::vector<Problem>& problems);

}  // namespace triax
