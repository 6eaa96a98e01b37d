// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/checked_config.h"

namespace CLI {
class App;
}

namespace triax {

/// FILE, overrides, --ranks, -q and -v.
void add_run_arguments(CLI::App& verb, RunArguments& arguments);

}  // namespace triax
