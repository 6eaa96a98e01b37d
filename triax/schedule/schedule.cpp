// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/schedule.h"

#include "triax/base/error.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/one_f_one_b.h"

namespace triax {

namespace {

struct NamedSchedule {
  const char* name;
  ScheduleFunction function;
};

constexpr NamedSchedule kSchedules[] = {
    {"gpipe", gpipe},
    {"1f1b", one_f_one_b},
};

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const NamedSchedule& schedule : kSchedules) {
    names.push_back(schedule.name);
  }
  return names;
}

std::vector<std::vector<Action>> make_schedule(std::string_view name,
                                               int num_stages,
                                               int num_microbatches) {
  std::string known;
  for (const NamedSchedule& schedule : kSchedules) {
    if (name == schedule.name) {
      return for_all_ranks(schedule.function, num_stages, num_microbatches);
    }
    known += (known.empty() ? "" : ", ") + std::string(schedule.name);
  }
  throw Error("parallel.schedule \"", name, "\" is not known; use ", known);
}

std::vector<std::vector<Action>> for_all_ranks(ScheduleFunction function,
                                               int num_stages,
                                               int num_microbatches) {
  if (num_stages < 1 || num_microbatches < 1) {
    throw Error("a pipeline needs at least one stage and one microbatch, not ",
                num_stages,
                " and ",
                num_microbatches);
  }
  std::vector<std::vector<Action>> actions;
  for (int pp_rank = 0; pp_rank < num_stages; ++pp_rank) {
    actions.push_back(function(pp_rank, num_stages, num_microbatches));
  }
  return actions;
}

}  // namespace triax
