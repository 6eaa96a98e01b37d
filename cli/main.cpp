// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verbs.h"
#include "cli/version.h"
#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/base/standard_streams.h"

namespace {

// CLI11 would take what follows "--" for more files.
std::vector<std::string> take_words(int& argc, char** argv) {
  const std::string_view dashes = "--";
  char** const end = argv + argc;
  char** const found = std::find(argv, end, dashes);
  std::vector<std::string> words;
  if (argc > 1 && std::string_view(argv[1]) == "check" && found != end) {
    words.assign(found + 1, end);
    argc = static_cast<int>(found - argv);
  }
  return words;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words = take_words(argc, argv);
  CLI::App app("Trains language models split over many processes.", "triax");
  triax::Verb verb;
  app.set_version_flag("--version", triax::version_text);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, equal, no findings; 1 failed, different, findings;\n"
      "2 wrong use or unreadable input; 130 interrupted.");
  triax::add_train_verb(app, verb);
  triax::add_verify_verb(app, verb);
  triax::add_check_verb(app, verb, words);
  triax::add_docs_verb(app, verb);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return verb();
}

int run_or_say(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const triax::Error& error) {
    triax::log_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    triax::log_error(error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  triax::open_standard_streams();
  triax::let_large_writes_fail();
  return triax::finish_standard_output(run_or_say(argc, argv));
}
