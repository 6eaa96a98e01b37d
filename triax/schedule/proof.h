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

}  // namespace triax
