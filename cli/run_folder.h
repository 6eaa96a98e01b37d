// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triax/config/run_config.h"

namespace triax {

struct RunFolderOptions {
  /// The run file, which names the folder when run.dir is left out.
  std::string file;
  /// After the file's name: "-verify".
  std::string suffix = {};
  /// Stands in the first line of run.toml.
  std::string command_line;
};

/// Makes the run's folder, sets config.run.dir to it, and writes run.toml, the
/// resolved config, into it. The folder is run.dir, or runs/NAME with "-2",
/// "-3", … if it is taken. Throws Error when it exists or cannot be made.
void make_run_folder(RunConfig& config, const RunFolderOptions& options);

}  // namespace triax
