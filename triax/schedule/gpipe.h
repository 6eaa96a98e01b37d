// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// Every forward, then every backward (GPipe, Huang et al. 2019). A stage
/// holds num_microbatches microbatches at its peak; the bubble is
/// (p-1)/(m+p-1) of the step. Backward runs in the order of the microbatches,
/// as 1f1b does, so that both add up gradients in the same order.
std::vector<Action> gpipe(int pp_rank, int num_stages, int num_microbatches);

/// The forward half alone: validation and generation.
std::vector<Action> forward_only(int pp_rank,
                                 int num_stages,
                                 int num_microbatches);

}  // namespace triax
