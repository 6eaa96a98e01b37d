// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/config/load.h"

namespace triax {

struct CheckOptions {
  /// Processor cores of this machine; 0: do not judge by them.
  int num_cores = 0;
  /// Its memory; 0: do not judge by it.
  int64_t memory_bytes = 0;
  /// Count what `verify` holds instead of what training does.
  bool is_verify = false;
  /// Look at data files and the run's folder. Otherwise arithmetic only.
  bool looks_at_files = true;
};

/// Every problem of a resolved config: those of the loader, then those that
/// the rules find, ordered by place. Pure arithmetic but for a look at the
/// files it names; starts nothing. A field that the loader refused is not
/// judged again. After "unreadable" or "syntax" no rule is tried.
std::vector<Problem> check_run(const LoadedConfig& loaded,
                               const CheckOptions& options = {});

}  // namespace triax
