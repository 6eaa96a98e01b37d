// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/comm/group.h"
#include "triax/config/run_config.h"
#include "triax/memory/category.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/spill_file.h"
#include "triax/plan/parallel_dims.h"

namespace triax {

/// A rank's files of offloaded states and of activations, and what was moved
/// so far.
struct OffloadUse {
  int64_t file_bytes = 0;
  IoBytes moved;
};

/// A rank's memory so far.
struct RankMemory {
  MemoryBytes peak;           // by category at the rank's own peak
  int64_t resident_peak = 0;  // VmHWM
  OffloadUse offload;
  int64_t on_disk_peak = 0;  // of activations that lay in a file
};

/// Notes this process' shared memory, then gathers every rank's figures, by
/// rank. Every rank of `world` must call.
std::vector<RankMemory> gather_memory(Group& world, const OffloadUse& mine);

/// "memory of rank 2 (dp 0, pp 1, tp 0), the one with most: 64.0 MiB at its
/// peak, predicted 60.2 MiB …; parameters 20.0 MiB, …". `ranks` by rank.
std::string peak_text(const RunConfig& config,
                      const std::vector<RankMemory>& ranks);

/// One sentence for rank `rank`, which ran out of memory: what grew, what was
/// asked for, the prediction, and the cheapest changes that would fit.
std::string out_of_memory_text(const RunConfig& config,
                               int rank,
                               const MemoryRequest& request);

/// "dp 0, pp 1, tp 0".
std::string to_text(const Coord& coord);

}  // namespace triax
