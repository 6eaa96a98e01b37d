// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "cli/checked_config.h"
#include "cli/verbs.h"
#include "triax/check/check.h"

namespace triax {
namespace {

struct CheckArguments {
  std::vector<std::string> files;
  std::string format = "text";
  std::optional<int> num_ranks;
};

void print_text(const std::vector<Problem>& problems) {
  int counts[3] = {};
  for (const Problem& problem : problems) {
    ++counts[static_cast<int>(problem.severity)];
    fmt::print("{}\n", to_text(problem));
  }
  const auto counted = [](int count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  fmt::print("{}, {}, {}\n",
             counted(counts[0], "error"),
             counted(counts[1], "warning"),
             counted(counts[2], "note"));
}

// Errors and warnings are findings, notes are not.
int code_of_findings(const std::vector<Problem>& problems) {
  int code = exit_code_of(problems);
  for (const Problem& problem : problems) {
    if (problem.severity == Severity::kWarning && code == 0) {
      code = 1;
    }
  }
  return code;
}

int check_files(const CheckArguments& arguments) {
  std::vector<Problem> all;
  for (const std::string& file : arguments.files) {
    LoadedConfig loaded = load_config(file);
    resolve(loaded, arguments.num_ranks);
    const std::vector<Problem> problems = check_run(loaded, this_machine());
    all.insert(all.end(), problems.begin(), problems.end());
  }
  if (arguments.format == "json") {
    fmt::print("{}\n", to_json(all));
  } else {
    print_text(all);
  }
  return code_of_findings(all);
}

}  // namespace

void add_check_verb(CLI::App& app, Verb& verb) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* check = app.add_subcommand(
      "check", "Find every mistake in run files before anything starts.");
  check->add_option("FILE", arguments->files, "run files")->required();
  check->add_option("--format", arguments->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}));
  check->add_option("--ranks", arguments->num_ranks, "ranks that there will be")
      ->check(CLI::Range(1, 1 << 16));
  check->callback([arguments, &verb] {
    verb = [arguments] { return check_files(*arguments); };
  });
}

}  // namespace triax
