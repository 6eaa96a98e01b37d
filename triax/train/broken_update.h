// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triax/comm/group.h"
#include "triax/dataset/batch.h"
#include "triax/train/rank_model.h"

namespace triax {

// What `verify --break` does to weights beside an update.

/// Moves every element of the frozen parameters by `lr`, and by so much more
/// that bf16 does not round it away.
void move_frozen(const RankModel& rank_model, double lr);

/// Moves by `lr` the embedding's row of the least token id that no replica
/// reads in this step. False where all ids are read. Every rank of `dp` on the
/// first stage must call.
bool move_unused_row(const RankModel& rank_model,
                     const StepData& data,
                     int64_t vocab_size,
                     Group& dp,
                     double lr);

}  // namespace triax
