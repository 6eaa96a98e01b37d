// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// What holds for the action lists of all ranks, by pp rank.
struct ScheduleProof {
  int num_microbatches = 0;
  /// Virtual stages per rank.
  int num_chunks = 1;
  bool is_forward_only = false;
  /// Messages each direction of a link must buffer so that no rank waits for
  /// ever; 0: a send may wait for its receive (rendezvous).
  int least_link_depth = 0;
  /// By rank: most microbatches (times chunks) between forward and backward.
  std::vector<int> peak_live_microbatches;
};

/// Proves the action lists: on each stage every microbatch goes forward once
/// and backward once (or never, when no rank has a backward), backward after
/// forward, with the receives and sends that the stage's place demands; every
/// receive meets its send, in order; and there is a link depth at which no
/// rank waits for ever. Virtual stage s stands on rank s mod p as chunk s / p.
/// Throws Error with a sentence that names the rank and the action.
ScheduleProof prove_schedule(const std::vector<std::vector<Action>>& actions,
                             int num_microbatches);

/// The same, and throws Error, naming what each rank waits in, when ranks wait
/// for ever with `link_depth` messages buffered per direction of a link.
ScheduleProof prove_schedule(const std::vector<std::vector<Action>>& actions,
                             int num_microbatches,
                             int link_depth);

/// Most microbatches of one rank between forward and backward: what multiplies
/// its activations. Of a list without backwards: 1.
int peak_live_microbatches(const std::vector<Action>& actions);

/// What a pipeline costs. One value per rank and action, or a single value
/// that all ranks share.
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

/// Runs the lists on a clock. They must be proved; throws Error as
/// prove_schedule does when ranks wait for ever at costs.link_depth.
Simulation simulate(const std::vector<std::vector<Action>>& actions,
                    const ScheduleCosts& costs);

}  // namespace triax
