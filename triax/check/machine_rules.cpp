// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/check/findings.h"

namespace triax {

void check_machine(Findings& findings) {
  const int64_t cores = findings.options.num_cores;
  const ParallelConfig& parallel = findings.config.parallel;
  const int64_t ranks = int64_t{parallel.tp} * parallel.pp * parallel.dp;
  if (cores == 0) {
    return;
  }
  if (ranks > 4 * cores) {
    findings.warning(
        "ranks-exceed-cores",
        "parallel.dp",
        fmt::format("{} ranks share {} cores: they mostly wait for "
                    "each other",
                    ranks,
                    cores),
        fmt::format("use at most {} ranks on this machine", 4 * cores));
  } else if (parallel.tp > cores) {
    findings.note("tp-exceeds-cores",
                  "parallel.tp",
                  fmt::format("tp {} on {} cores: the ranks that split a layer "
                              "take turns",
                              parallel.tp,
                              cores),
                  "");
  }
}

}  // namespace triax
