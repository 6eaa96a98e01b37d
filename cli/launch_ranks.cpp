// SPDX-License-Identifier: Apache-2.0
#include "cli/launch_ranks.h"

#include "triax/comm/launch.h"

namespace triax {

int launch_ranks(const std::string& program,
                 const RunConfig& config,
                 const std::string& verb,
                 const std::vector<std::string>& options) {
  LaunchOptions launching;
  launching.program = program;
  launching.arguments = {verb, config.run.dir + "/run.toml"};
  launching.arguments.insert(
      launching.arguments.end(), options.begin(), options.end());
  launching.world_size = config.world_size();
  launching.deadline_seconds = config.comm.deadline_seconds;
  launching.log_dir = config.run.dir + "/logs";
  return launch(launching);
}

}  // namespace triax
