// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "cli/launch_ranks.h"
#include "cli/run_arguments.h"
#include "cli/run_folder.h"
#include "cli/verbs.h"
#include "triax/base/log.h"
#include "triax/check/breaks.h"
#include "triax/comm/launch.h"

namespace triax {
namespace {

// A run and its verification have folders of their own.
constexpr const char* kSuffix = "-verify";

struct VerifyArguments : RunArguments {
  bool is_json = false;
  std::optional<std::string> broken;
  std::optional<int> num_steps;
};

std::vector<std::string> run_options(const VerifyArguments& arguments) {
  std::vector<std::string> options;
  if (arguments.is_json) {
    options.push_back("--json");
  }
  if (arguments.broken) {
    options.insert(options.end(), {"--break", *arguments.broken});
  }
  if (arguments.num_steps) {
    options.insert(options.end(),
                   {"--steps", std::to_string(*arguments.num_steps)});
  }
  if (arguments.is_quiet || arguments.is_verbose) {
    options.push_back(arguments.is_quiet ? "--quiet" : "--verbose");
  }
  return options;
}

int verify(const VerifyArguments& arguments) {
  CheckOptions options = this_machine();
  options.is_verify = true;
  CheckedConfig checked = load_checked(arguments, kSuffix, options);
  if (checked.exit_code) {
    return *checked.exit_code;
  }
  RunConfig& config = checked.loaded.config;
  if (arguments.broken) {
    parse_break(*arguments.broken, config);
  }
  const std::string program = find_run_program();
  make_run_folder(config,
                  {.file = arguments.file,
                   .suffix = kSuffix,
                   .command_line = "triax verify " + arguments.file});
  const int code =
      launch_ranks(program, config, "verify", run_options(arguments));
  if (code == 0) {
    std::filesystem::remove_all(config.run.dir);
  } else {
    log_info("the ranks' logs are in ", config.run.dir, "/logs");
  }
  return code;
}

}  // namespace

void add_verify_verb(CLI::App& app, Verb& verb) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* verify_verb = app.add_subcommand(
      "verify",
      "Compare the run's layout with one rank: loss, gradients, norm, "
      "weights.");
  add_run_arguments(*verify_verb, *arguments);
  verify_verb->add_flag("--json", arguments->is_json, "the result as JSON");
  verify_verb->add_option("--break",
                          arguments->broken,
                          "spoil one thing on purpose, which must be found");
  verify_verb->add_option("--steps", arguments->num_steps, "steps to compare")
      ->check(CLI::Range(1, 1 << 20));
  verify_verb->callback([arguments, &verb] {
    verb = [arguments] { return verify(*arguments); };
  });
}

}  // namespace triax
