// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/config/model_part.h"
#include "triax/plan/activation_offload.h"

namespace triax {

/// What takes memory; predict_memory() says what belongs to each.
enum class MemoryKind {
  kParameters,
  kGathered,
  kGradients,
  kBuckets,
  kOptimizer,
  kWindows,
  kActivations,
  kRecomputed,
  kLogits,
  kPipeline,
  kWorking
};

/// "parameters".
std::string_view kind_name(MemoryKind kind);

/// What one kind of thing takes in memory, and how that was counted.
struct MemoryLine {
  MemoryKind kind = MemoryKind::kParameters;
  int64_t nbytes = 0;
  std::string formula;
  int64_t disk_bytes = 0;  // that lie on file instead

  /// Kept from step to step.
  bool is_state() const {
    return kind == MemoryKind::kParameters || kind == MemoryKind::kGradients ||
           kind == MemoryKind::kOptimizer;
  }
};

/// The memory of each rank of one pipeline stage: the ranks of a stage store
/// equal shapes, padding included, so one answer holds for all of them.
struct StageMemory {
  ModelPart part;
  int num_live_microbatches = 1;
  std::vector<MemoryLine> lines;
  /// Where activations move to a file.
  std::optional<ActivationOffload> activation_offload = {};

  /// nullptr where nothing of the kind is counted.
  const MemoryLine* line_of(MemoryKind kind) const;
  /// Of that line; 0 without one.
  int64_t bytes_of(MemoryKind kind) const;
  int64_t total_bytes() const;
  /// Of those lines that are kept from step to step.
  int64_t state_bytes() const;
  /// On file, beside the total.
  int64_t disk_bytes() const;
};

/// The stage whose ranks need most. `stages` must not be empty.
const StageMemory& heaviest_stage(const std::vector<StageMemory>& stages);

/// One row per kind, one column per stage, the totals, and how the heaviest
/// stage was counted. Ends with a newline.
std::string memory_table(const std::vector<StageMemory>& stages);

}  // namespace triax
