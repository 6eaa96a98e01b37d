// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// A change of a config, and what its heaviest rank would then need.
struct MemoryChange {
  std::string setting;  // "training.microbatch_size = 1"
  std::string cost;     // "4 ranks instead of 2"; empty: none to speak of
  int64_t nbytes = 0;
  std::string arithmetic;  // "activations 24.2 MiB instead of 48.4 MiB, …"
  int num_ranks = 1;
};

struct MemoryAdviceOptions {
  int64_t limit_bytes = 0;
  /// What a run was seen to need over its prediction: added to each change's.
  int64_t unpredicted_bytes = 0;
  size_t max_changes = 2;
};

struct MemoryAdvice {
  /// The cheapest changes with which every rank needs at most the limit.
  std::vector<MemoryChange> fitting;
  /// Where none fits: the one that comes nearest, if anything helps.
  std::vector<MemoryChange> nearest;
};

/// Bytes of the heaviest rank, by predict_memory().
int64_t heaviest_rank_bytes(const RunConfig& config);

/// Tries, the fewest ranks first and then in this order: 1f1b instead of gpipe;
/// ZeRO 1 and 2; sequence parallelism; smaller microbatches (the global batch
/// stays where it is set, so that the run learns the same); selective and full
/// recompute; the optimizer's state on file; tp or pp from the ranks that dp
/// has; tp or pp with more ranks; both with microbatches of 1. What check_run()
/// would refuse is left out, and one of a kind is enough. The config must be
/// resolved and checked.
MemoryAdvice advise_on_memory(const RunConfig& config,
                              const MemoryAdviceOptions& options);

/// "training.microbatch_size = 1 (48.2 MiB: activations 24.2 MiB instead of
/// 48.4 MiB) or parallel.tp = 2 …"; where nothing fits it says so.
std::string to_text(const MemoryAdvice& advice);

}  // namespace triax
