// SPDX-License-Identifier: Apache-2.0
#include "cli/run_arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "triax/config/docs.h"

namespace triax {

void add_run_arguments(CLI::App& verb, RunArguments& arguments) {
  verb.add_option("FILE", arguments.file, "the run file")->required();
  verb.add_option(
      "OVERRIDES", arguments.overrides, "section.key=value, after the file");
  verb.add_option("--ranks",
                  arguments.num_ranks,
                  "ranks to start; dp follows unless it is set")
      ->check(CLI::Range(1, 1 << 16));
  auto* quiet = verb.add_flag(
      "-q,--quiet", arguments.is_quiet, "errors and results only");
  verb.add_flag("-v,--verbose", arguments.is_verbose, "say more on stderr")
      ->excludes(quiet);
  verb.footer(keys_help);
}

}  // namespace triax
