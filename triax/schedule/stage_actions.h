// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// Writes a stage's action list: each forward or backward with the receive it
/// needs before it and the send it causes after it, left out at the ends.
class StageActions {
 public:
  /// Throws std::logic_error unless 0 <= pp_rank < num_stages.
  StageActions(int pp_rank, int num_stages);

  void forward(int microbatch);
  void backward(int microbatch);
  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(ActionKind kind, int microbatch);

  const bool is_first_;
  const bool is_last_;
  std::vector<Action> actions_;
};

}  // namespace triax
