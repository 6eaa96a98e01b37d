// SPDX-License-Identifier: Apache-2.0
#include "cli/checked_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "triax/base/log.h"
#include "triax/base/machine.h"
#include "triax/check/check.h"

namespace triax {
namespace {

void print_problems(const std::vector<Problem>& problems,
                    const RunArguments& arguments) {
  for (const Problem& problem : problems) {
    if (problem.severity == Severity::kError || !arguments.is_quiet) {
      fmt::print(stderr, "{}\n", to_text(problem));
    }
  }
}

void print_derived(const LoadedConfig& loaded) {
  for (const auto& [key, from] : loaded.derived) {
    fmt::print(stderr, "{}: {}: from {}\n", loaded.file, key, from);
  }
}

}  // namespace

int exit_code_of(const std::vector<Problem>& problems) {
  const bool is_unreadable =
      std::any_of(problems.begin(), problems.end(), [](const Problem& p) {
        return p.rule == "unreadable" || p.rule == "syntax";
      });
  return is_unreadable ? 2 : has_errors(problems) ? 1 : 0;
}

CheckOptions this_machine() {
  return {.num_cores = num_cores(), .memory_bytes = machine_memory_bytes()};
}

CheckedConfig load_checked(const RunArguments& arguments,
                           const std::string& dir_suffix,
                           const CheckOptions& options) {
  if (arguments.is_quiet) {
    configure_log({.level = LogLevel::kWarning});
  }
  CheckedConfig checked;
  LoadedConfig& loaded = checked.loaded;
  loaded = load_config(arguments.file, arguments.overrides);
  std::string& dir = loaded.config.run.dir;
  while (dir.size() > 1 && dir.back() == '/') {
    dir.pop_back();
  }
  dir += dir.empty() ? "" : dir_suffix;
  resolve(loaded, arguments.num_ranks);
  const std::vector<Problem> problems = check_run(loaded, options);
  print_problems(problems, arguments);
  if (arguments.is_verbose) {
    print_derived(loaded);
  }
  if (const int code = exit_code_of(problems)) {
    checked.exit_code = code;
  }
  return checked;
}

}  // namespace triax
