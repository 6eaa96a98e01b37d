// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"
#include "triax/plan/zero_stages.h"

namespace triax {

/// Which states of a run lie on file. On a CPU device "host" moves nothing.
struct OffloadedStates {
  bool optimizer = false;  // with master weights
  bool gradients = false;
  bool parameters = false;
  bool activations = false;

  /// Whether a rank has a file for its shard.
  bool any_of_shard() const { return optimizer || gradients || parameters; }
};

OffloadedStates offloaded_states(const RunConfig& config);

/// Whether memory.offload_states names it, whatever memory.offload is.
bool names_offload_state(const RunConfig& config, const std::string& state);

/// On file a bucket's part begins at a multiple of so many elements, which fill
/// a disk's block (4096 bytes) in the narrowest type.
inline constexpr int64_t kSpillElements = 2048;

/// Where a rank's shard lies in arrays on file, one array for each state: the
/// shard's part of every bucket, one after the other.
struct SpillLayout {
  std::vector<Range> buckets;  // whole blocks: what is padded is 0
  int64_t numel = 0;
};

SpillLayout spill_layout(const FlatLayout& layout);

/// A slice's place in such an array.
Range spilled_place(const SpillLayout& spill,
                    const FlatLayout& layout,
                    const ShardSlice& slice);

/// Bytes of a rank's file.
struct SpilledBytes {
  int64_t optimizer = 0;
  int64_t gradients = 0;
  int64_t parameters = 0;

  int64_t total() const { return optimizer + gradients + parameters; }
};

SpilledBytes spilled_bytes(const RunConfig& config, const FlatLayout& layout);

/// Of what is trained of `stored`, one stage's parameters in the order of the
/// forward pass, as rank 0 of tp stores them: it owns a piece of each.
SpilledBytes spilled_bytes_of_rank(const RunConfig& config,
                                   const std::vector<ParameterLayout>& stored);

/// Elements of a window of such arrays, and how many of them are in memory at a
/// time.
inline constexpr int64_t kSpillWindowElements = int64_t{1} << 18;
inline constexpr int kSpillWindows = 4;

/// Parts of buckets that are in memory while gradients add up on file: as many
/// are read ahead, and as many written, as buckets are on their way.
inline constexpr int kMaxGradientParts = 2 * kMaxGradientBlocks;

/// Bytes of memory that what is on file takes on its way: the windows of an
/// update, or before it the parts of gradients (and their buckets, where one
/// replica has no others) and of parameters.
int64_t spill_buffer_bytes(const RunConfig& config,
                           const std::vector<ParameterLayout>& stored);

/// Bytes that an element of the optimizer's state takes: its own states and the
/// master weight.
int64_t optimizer_element_bytes(const RunConfig& config);

/// The folder of a run's files: memory.offload_dir, or the run's.
std::string offload_folder(const RunConfig& config);

}  // namespace triax
