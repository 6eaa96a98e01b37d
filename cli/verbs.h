// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace triax {

/// What the command line asks for; returns the exit code.
using Verb = std::function<int()>;

// Each adds a subcommand to `app` that sets `verb` when it is chosen.
/// `words`: what stood after "--" on the command line.
void add_check_verb(CLI::App& app,
                    Verb& verb,
                    const std::vector<std::string>& words);
void add_train_verb(CLI::App& app, Verb& verb);
void add_verify_verb(CLI::App& app, Verb& verb);
/// Hidden: the pages that are made from tables.
void add_docs_verb(CLI::App& app, Verb& verb);

}  // namespace triax
