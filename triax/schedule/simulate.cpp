// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/simulate.h"

#include <algorithm>
#include <numeric>

#include "triax/base/error.h"
#include "triax/schedule/pipeline_clock.h"

namespace triax {

Simulation simulate(const std::vector<std::vector<Action>>& actions,
                    const ScheduleCosts& costs) {
  detail::PipelineClock clock(actions, costs);
  if (!clock.run()) {
    throw Error("with ",
                costs.link_depth,
                " messages buffered per direction of a link, ranks wait for "
                "ever: ",
                clock.waiting());
  }
  Simulation result;
  result.spans = clock.take_spans();
  for (const std::vector<ActionSpan>& spans : result.spans) {
    double busy = 0.0;
    for (const ActionSpan& span : spans) {
      if (span.action.kind == ActionKind::kForward ||
          span.action.kind == ActionKind::kBackward) {
        busy += span.end_seconds - span.start_seconds;
      }
      result.makespan_seconds =
          std::max(result.makespan_seconds, span.end_seconds);
    }
    result.busy_seconds.push_back(busy);
  }
  const double busy = std::accumulate(
      result.busy_seconds.begin(), result.busy_seconds.end(), 0.0);
  const double total = result.makespan_seconds * actions.size();
  result.bubble = total > 0.0 ? 1.0 - busy / total : 0.0;
  return result;
}

}  // namespace triax
