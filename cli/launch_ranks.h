// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// Starts `program` (find_run_program()) with `VERB RUNDIR/run.toml OPTIONS…`
/// and as many ranks as the config has; returns its exit code. The ranks' logs
/// are in RUNDIR/logs. Call after make_run_folder(). Throws Error when it
/// cannot start.
int launch_ranks(const std::string& program,
                 const RunConfig& config,
                 const std::string& verb,
                 const std::vector<std::string>& options);

}  // namespace triax
