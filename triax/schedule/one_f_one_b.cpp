// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/one_f_one_b.h"

#include <algorithm>

#include "triax/schedule/stage_actions.h"

namespace triax {

std::vector<Action> one_f_one_b(int pp_rank,
                                int num_stages,
                                int num_microbatches) {
  StageActions stage(pp_rank, num_stages);
  const int num_warm_up = std::min(num_microbatches, num_stages - 1 - pp_rank);
  int next_backward = 0;
  for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
    stage.forward(microbatch);
    if (microbatch >= num_warm_up) {
      stage.backward(next_backward++);
    }
  }
  while (next_backward < num_microbatches) {
    stage.backward(next_backward++);
  }
  return stage.take();
}

}  // namespace triax
