// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// What a pipeline costs: seconds of one forward and backward, one value for
/// each rank or one for all.
struct ScheduleCosts {
  std::vector<double> forward_seconds = {1.0};
  std::vector<double> backward_seconds = {2.0};
  /// One message over one link; messages of one direction follow each other.
  double transfer_seconds = 0.0;
  /// Messages buffered per direction of a link; a send waits when it is full.
  int link_depth = 1;
};

/// When a rank was in an action. A send lasts while the buffer is full, a
/// receive while the message is not there.
struct ActionSpan {
  Action action;
  double start_seconds = 0.0;
  double end_seconds = 0.0;
};

struct Simulation {
  std::vector<std::vector<ActionSpan>> spans;  // by rank
  std::vector<double> busy_seconds;            // by rank: forward + backward
  double makespan_seconds = 0.0;
  /// Share of the ranks' time in which they compute nothing: idle / total,
  /// (p-1)/(m+p-1) for equal stages and free transfers.
  double bubble = 0.0;
};

/// Runs the lists on a clock. They must be proved (proof.h). Throws Error,
/// naming what each rank waits in, when ranks wait for ever at
/// costs.link_depth.
Simulation simulate(const std::vector<std::vector<Action>>& actions,
                    const ScheduleCosts& costs);

}  // namespace triax
