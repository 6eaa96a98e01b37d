// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/config/load.h"

namespace triax {

/// The config as a run file: every field that is built, defaults too. Loaded
/// and resolved again it is equal, bit for bit.
std::string print_config(const RunConfig& config);

}  // namespace triax
