// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"
#include "triax/plan/zero_stages.h"

namespace triax {

void check_zero_group(Findings& findings) {
  const ParallelConfig& parallel = findings.config.parallel;
  if (parallel.zero_group > 0 && parallel.dp % parallel.zero_group != 0) {
    findings.error(
        "zero-group-divides",
        "parallel.zero_group",
        fmt::format("{} replicas do not split into groups of {}{}",
                    parallel.dp,
                    parallel.zero_group,
                    findings.derivation("parallel.dp")),
        fmt::format("use zero_group = {}", one_of(divisors(parallel.dp))));
  }
}

void check_zero_buckets(Findings& findings) {
  const RunConfig& config = findings.config;
  if (!splits_gradients(config.parallel)) {
    return;
  }
  RunConfig whole = config;
  whole.parallel.zero = 1;
  for (const ModelPart& part : split_stages(config.model, config.parallel)) {
    const auto stored =
        parameter_layouts(config.model, part, config.parallel.tp, 0);
    const StateBytesOfRank bytes = state_bytes_of_rank(config, stored);
    const int64_t all = state_bytes_of_rank(whole, stored).gradients;
    if (bytes.gradients + bytes.buckets > all) {
      findings.note(
          "zero-large-buckets",
          "parallel.bucket_bytes",
          fmt::format(
              "a shard of {} and {} bucket{} of {} are more than the {} "
              "of gradients that zero = 1 keeps",
              format_bytes(bytes.gradients),
              bytes.num_blocks,
              bytes.num_blocks == 1 ? "" : "s",
              format_bytes(bytes.largest_bucket),
              format_bytes(all)),
          "use smaller buckets (none is smaller than its largest parameter), "
          "or zero = 1");
      return;
    }
  }
}

void check_zero_units(Findings& findings) {
  const RunConfig& config = findings.config;
  if (!splits_parameters(config.parallel)) {
    return;
  }
  RunConfig whole = config;
  whole.parallel.zero = 2;
  for (const ModelPart& part : split_stages(config.model, config.parallel)) {
    const auto stored =
        parameter_layouts(config.model, part, config.parallel.tp, 0);
    const StateBytesOfRank bytes = state_bytes_of_rank(config, stored);
    const int64_t all = state_bytes_of_rank(whole, stored).parameters;
    if (bytes.parameters + bytes.gathered > all) {
      const bool reshards = config.parallel.reshard_after_forward;
      findings.note(
          "zero-large-units",
          reshards ? "parallel.prefetch" : "parallel.reshard_after_forward",
          fmt::format("a shard of {} and {} that are gathered at a time are "
                      "more than the {} of parameters that zero = 2 keeps",
                      format_bytes(bytes.parameters),
                      format_bytes(bytes.gathered),
                      format_bytes(all)),
          reshards ? "use zero = 2, a smaller prefetch, or more layers on a "
                     "stage"
                   : "use zero = 2, or leave it out");
      return;
    }
  }
}

}  // namespace triax
