// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/config/run_config.h"
#include "triax/plan/memory_model.h"

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

void check_memory(Findings& findings) {
  const int64_t available = findings.options.memory_bytes;
  const ParallelConfig& parallel = findings.config.parallel;
  if (available == 0) {
    return;
  }
  int64_t heaviest = 0;
  int64_t all = 0;
  for (const StageMemory& stage : predict_memory(findings.config)) {
    heaviest = std::max(heaviest, stage.total_bytes());
    all += stage.total_bytes() * parallel.tp * parallel.dp;
  }
  if (all > available) {
    findings.warning(
        "memory-exceeds-machine",
        "model",
        fmt::format("{} ranks need {} together, {} the largest, and this "
                    "machine has {}",
                    findings.config.world_size(),
                    format_bytes(all),
                    format_bytes(heaviest),
                    format_bytes(available)),
        "use a smaller model, microbatch or dp; train --dry-run shows what "
        "takes it");
  }
}

namespace {

/// The least seconds that the largest message of an axis takes.
double message_seconds(const RunConfig& config,
                       const std::string& axis,
                       const EmulatedLink& link) {
  const int64_t activation =
      config.training.microbatch_size * config.data.sequence_length *
      config.model.hidden_size *
      dtype_bytes(storage_dtype(config.training.precision));
  int64_t gradients = 0;
  for (const StageMemory& stage : predict_memory(config)) {
    for (const MemoryLine& line : stage.lines) {
      gradients = line.what == "gradients" ? std::max(gradients, line.nbytes)
                                           : gradients;
    }
  }
  const int64_t nbytes = axis == "dp"
                             ? std::min(gradients, config.parallel.bucket_bytes)
                             : activation;
  return link.latency_seconds +
         (link.bytes_per_second > 0
              ? static_cast<double>(nbytes) / link.bytes_per_second
              : 0.0);
}

}  // namespace

void check_deadline(Findings& findings) {
  const double deadline = findings.config.comm.deadline_seconds;
  for (const auto& [axis, link] : findings.config.comm.emulate) {
    const double seconds = message_seconds(findings.config, axis, link);
    if (seconds >= deadline) {
      findings.error(
          "deadline-too-short",
          "comm.deadline",
          fmt::format("a message over {} takes {} on the emulated link, and a "
                      "rank that waits {} for one gives up",
                      axis,
                      format_duration(seconds),
                      format_duration(deadline)),
          fmt::format("use a deadline of several times {}, or a faster "
                      "comm.emulate.{}",
                      format_duration(seconds),
                      axis));
    }
  }
}

}  // namespace triax
