// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/gpipe.h"

#include "triax/schedule/stage_actions.h"

namespace triax {

std::vector<Action> gpipe(int pp_rank, int num_stages, int num_microbatches) {
  StageActions stage(pp_rank, num_stages);
  for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
    stage.forward(microbatch);
  }
  for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
    stage.backward(microbatch);
  }
  return stage.take();
}

std::vector<Action> forward_only(int pp_rank,
                                 int num_stages,
                                 int num_microbatches) {
  StageActions stage(pp_rank, num_stages);
  for (int microbatch = 0; microbatch < num_microbatches; ++microbatch) {
    stage.forward(microbatch);
  }
  return stage.take();
}

}  // namespace triax
