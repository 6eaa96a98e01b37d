// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// One forward, one backward (PipeDream-Flush, Narayanan et al. 2021): stage i
/// of p runs min(m, p-1-i) forwards to warm up, then forward and backward in
/// turn, then the backwards that are left. It holds min(m, p-i) microbatches
/// at its peak; the bubble equals GPipe's. Each direction of a link must
/// buffer one message: with rendezvous sends neighbours wait for each other.
std::vector<Action> one_f_one_b(int pp_rank,
                                int num_stages,
                                int num_microbatches);

}  // namespace triax
