// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/config/run_config.h"

namespace triax {

/// What a run would do, without a process: the mesh, each rank's parameters,
/// the bubble of its schedule and the predicted bytes. For a checked config.
std::string dry_run_text(const RunConfig& config);

}  // namespace triax
