// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>

#include "cli/verbs.h"
#include "triax/config/docs.h"

namespace triax {

void add_docs_verb(CLI::App& app, Verb& verb) {
  auto page = std::make_shared<std::string>();
  CLI::App* docs =
      app.add_subcommand("docs", "Print a page made from a table.");
  docs->group("");  // not in --help
  docs->add_option("PAGE", *page, "config or rules")
      ->required()
      ->check(CLI::IsMember({"config", "rules"}));
  docs->callback([page, &verb] {
    verb = [page] {
      fmt::print("{}", *page == "config" ? config_page() : rules_page());
      return 0;
    };
  });
}

}  // namespace triax
