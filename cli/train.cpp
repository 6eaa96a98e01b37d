// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <memory>

#include "cli/dry_run.h"
#include "cli/launch_ranks.h"
#include "cli/run_arguments.h"
#include "cli/run_folder.h"
#include "cli/verbs.h"
#include "triax/base/log.h"
#include "triax/comm/launch.h"
#include "triax/config/print_config.h"

namespace triax {
namespace {

struct TrainArguments : RunArguments {
  bool prints_config = false;
  bool is_dry_run = false;
  std::string resume = "none";
};

std::string command_line(const TrainArguments& arguments) {
  return fmt::format(
      "triax train {} {}", arguments.file, fmt::join(arguments.overrides, " "));
}

int train(const TrainArguments& arguments) {
  if (arguments.resume != "none") {
    log_error("--resume: not built yet; leave it out to start from step 0");
    return 2;
  }
  CheckedConfig checked = load_checked(arguments);
  if (checked.exit_code) {
    return *checked.exit_code;
  }
  RunConfig& config = checked.loaded.config;
  if (arguments.prints_config) {
    fmt::print("{}", print_config(config));
    return 0;
  }
  if (arguments.is_dry_run) {
    fmt::print("{}", dry_run_text(config));
    return 0;
  }
  const std::string program = find_run_program();
  make_run_folder(
      config,
      {.file = arguments.file, .command_line = command_line(arguments)});
  std::vector<std::string> options;
  if (arguments.is_quiet || arguments.is_verbose) {
    options.push_back(arguments.is_quiet ? "--quiet" : "--verbose");
  }
  return launch_ranks(program, config, "train", options);
}

}  // namespace

void add_train_verb(CLI::App& app, Verb& verb) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* train_verb = app.add_subcommand("train", "Run a run file.");
  add_run_arguments(*train_verb, *arguments);
  train_verb->add_flag("--print-config",
                       arguments->prints_config,
                       "print every value the run would have, and stop");
  train_verb->add_flag("--dry-run",
                       arguments->is_dry_run,
                       "check, say what would run, and stop");
  train_verb->add_option(
      "--resume", arguments->resume, "auto, a folder, or none");
  train_verb->callback(
      [arguments, &verb] { verb = [arguments] { return train(*arguments); }; });
}

}  // namespace triax
