// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// Starts triax-run with `VERB RUNDIR/run.toml OPTIONS…` and as many ranks as
/// the config has; returns its exit code. The ranks' logs are in RUNDIR/logs.
/// Call after make_run_folder(). Throws Error when triax-run cannot start.
int launch_ranks(const RunConfig& config,
                 const std::string& verb,
                 const std::vector<std::string>& options);

}  // namespace triax
