// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/stage_actions.h"

#include "triax/base/error.h"

namespace triax {

StageActions::StageActions(int pp_rank, int num_stages)
    : is_first_(pp_rank == 0), is_last_(pp_rank == num_stages - 1) {
  TRIAX_CHECK(pp_rank >= 0 && pp_rank < num_stages,
              "pp rank ",
              pp_rank,
              " of ",
              num_stages);
}

void StageActions::forward(int microbatch) {
  if (!is_first_) {
    add(ActionKind::kReceiveActivation, microbatch);
  }
  add(ActionKind::kForward, microbatch);
  if (!is_last_) {
    add(ActionKind::kSendActivation, microbatch);
  }
}

void StageActions::backward(int microbatch) {
  if (!is_last_) {
    add(ActionKind::kReceiveGradient, microbatch);
  }
  add(ActionKind::kBackward, microbatch);
  if (!is_first_) {
    add(ActionKind::kSendGradient, microbatch);
  }
}

void StageActions::add(ActionKind kind, int microbatch) {
  actions_.push_back({.kind = kind, .microbatch = microbatch, .chunk = 0});
}

}  // namespace triax
