// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// The ways in which `verify --break` spoils a split on purpose, each one a
/// defect that a system of this field has had. kNone breaks nothing.
enum class Break {
  kNone,
  kSkipNormReduction,
  kAverageNorms,
  kSwapHeads,
  kDropMicrobatch,
  kShiftVocabulary,
  kUntie,
  kSameSeedOnStages,
  kRescaleRunningSum,
  kLastMicrobatchOnly,
  kLocalTokenCount,
  kSkipReplicaReduction,
  kSkipKvSum,
  kSkipRowSum,
  kSkipColumnGradient,
  kSwapLayers,
  kCountPadding,
  kLocalDropout,
  kSkipSequenceSum,
  kFirstSequencePart,
  kIgnoreGroups,
  kSkipClipping,
  kMoveFrozen,
  kMoveUnusedRow,
  kStaleParameterShard,
  kShardNotUpdated,
  kStaleUnit,
};

struct BreakInfo {
  Break kind;
  std::string name;  // as on the command line
  std::string what;  // what is done
};

const std::vector<BreakInfo>& break_table();

/// Throws Error that lists the names for one that is not there, and one that
/// says what is missing where the layout has nothing to break that way.
Break parse_break(const std::string& name, const RunConfig& config);

/// What the layout lacks for this break to do something; nothing if it can.
/// Clipping and an unused row depend on the data too: Trainer::has_broken().
std::optional<std::string> missing_for(Break kind, const RunConfig& config);

}  // namespace triax
