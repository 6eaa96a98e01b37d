// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/schedule/action.h"

namespace triax {

/// The actions of one rank, in the order in which it must start them. A pure
/// function of the stage's number, the number of stages and of microbatches.
using ScheduleFunction = std::vector<Action> (*)(int pp_rank,
                                                 int num_stages,
                                                 int num_microbatches);

/// The names that `parallel.schedule` takes: "gpipe", "1f1b".
std::vector<std::string> schedule_names();

/// The action lists of all ranks of a pipeline, by pp rank. Throws Error when
/// no schedule has this name, or a count is below 1.
std::vector<std::vector<Action>> make_schedule(std::string_view name,
                                               int num_stages,
                                               int num_microbatches);

/// The same for a function that has no name: for_all_ranks(forward_only, p, m).
std::vector<std::vector<Action>> for_all_ranks(ScheduleFunction function,
                                               int num_stages,
                                               int num_microbatches);

}  // namespace triax
