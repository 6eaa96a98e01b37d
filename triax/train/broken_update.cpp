// SPDX-License-Identifier: Apache-2.0
#include "triax/train/broken_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>

#include <algorithm>
#include <vector>

#include "triax/model/piece_part.h"

namespace triax {
namespace {

/// Of a value: what bf16 does not round away.
constexpr double kNarrowStep = 0x1p-7;

}  // namespace

void move_frozen(const RankModel& rank_model, double lr) {
  const at::NoGradGuard no_grad;
  for (const ParameterSlot* slot : rank_model.slots) {
    if (slot->tensor.requires_grad()) {
      continue;
    }
    // Padding stays 0.
    for (const Piece& piece : slot->layout.pieces) {
      const at::Tensor part = stored_part(slot->tensor, piece);
      part.add_(at::abs(part) * kNarrowStep + lr);
    }
  }
}

bool move_unused_row(const RankModel& rank_model,
                     const StepData& data,
                     int64_t vocab_size,
                     Group& dp,
                     double lr) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> is_read(vocab_size);
  for (const MicrobatchData& microbatch : data.microbatches) {
    for (const int64_t token : microbatch.tokens) {
      is_read[token] = 1;
    }
  }
  dp.all_reduce({is_read.data(), vocab_size, DType::kInt64}, ReduceOp::kMax);
  const auto found = std::find(is_read.begin(), is_read.end(), 0);
  if (found == is_read.end()) {
    return false;
  }
  const int64_t row = found - is_read.begin();
  for (const ParameterSlot* slot : rank_model.slots) {
    if (slot->layout.name != "embedding.weight") {
      continue;
    }
    for (const Piece& piece : slot->layout.pieces) {
      const Range& rows = piece.logical_range[0];
      if (row >= rows.start && row < rows.start + rows.length) {
        stored_part(slot->tensor, piece)[row - rows.start].add_(lr);
      }
    }
  }
  return true;
}

}  // namespace triax
