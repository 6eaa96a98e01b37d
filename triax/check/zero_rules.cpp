// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

using enum MemoryKind;

/// What a ZeRO stage holds in memory that the one before it holds whole.
struct LowerStage {
  int zero = 0;
  std::vector<MemoryKind> held;  // counted on either side
};

/// What is whole in memory there cannot lie on file.
RunConfig with_stage(RunConfig config, int zero) {
  config.parallel.zero = zero;
  std::vector<std::string>& on_file = config.memory.offload_states;
  if (zero < 3) {
    std::erase(on_file, "parameters");
  }
  if (zero < 2) {
    std::erase(on_file, "gradients");
  }
  return config;
}

int64_t bytes_of(const StageMemory& stage,
                 const std::vector<MemoryKind>& kinds) {
  int64_t total = 0;
  for (const MemoryKind kind : kinds) {
    total += stage.bytes_of(kind);
  }
  return total;
}

/// "5.0 MiB of gradients and 20.0 MiB of buckets"
std::string parts_text(const StageMemory& stage,
                       const std::vector<MemoryKind>& kinds) {
  std::vector<std::string> parts;
  for (const MemoryKind kind : kinds) {
    const int64_t nbytes = stage.bytes_of(kind);
    if (nbytes > 0) {
      parts.push_back(
          fmt::format("{} of {}",
                      format_bytes(nbytes),
                      kind == kGathered ? "gathered units" : kind_name(kind)));
    }
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

/// Of the first pipeline stage that would hold less; empty where none would.
std::string more_than_lower_stage(const RunConfig& config,
                                  const LowerStage& lower) {
  const std::vector<StageMemory> lower_stages =
      predict_memory(with_stage(config, lower.zero));
  const std::vector<StageMemory> stages = predict_memory(config);
  for (size_t i = 0; i < stages.size(); ++i) {
    std::vector<MemoryKind> held = lower.held;
    // What is on file passes through memory, be it other states alone.
    if (stages[i].bytes_of(kWindows) != lower_stages[i].bytes_of(kWindows)) {
      held.push_back(kWindows);
    }
    if (bytes_of(stages[i], held) > bytes_of(lower_stages[i], held)) {
      return fmt::format("{} are more than the {} that zero = {} keeps",
                         parts_text(stages[i], held),
                         parts_text(lower_stages[i], held),
                         lower.zero);
    }
  }
  return "";
}

}  // namespace

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
  if (!splits_gradients(findings.config.parallel)) {
    return;
  }
  const std::string trouble = more_than_lower_stage(
      findings.config, {.zero = 1, .held = {kGradients, kBuckets}});
  if (!trouble.empty()) {
    findings.note(
        "zero-large-buckets",
        "parallel.bucket_bytes",
        trouble,
        "use smaller buckets (none is smaller than its largest parameter), "
        "or zero = 1");
  }
}

void check_zero_units(Findings& findings) {
  if (!splits_parameters(findings.config.parallel)) {
    return;
  }
  const std::string trouble = more_than_lower_stage(
      findings.config, {.zero = 2, .held = {kParameters, kGathered}});
  if (!trouble.empty()) {
    const bool reshards = findings.config.parallel.reshard_after_forward;
    findings.note(
        "zero-large-units",
        reshards ? "parallel.prefetch" : "parallel.reshard_after_forward",
        trouble,
        reshards ? "use zero = 2, a smaller prefetch, or more layers on a stage"
                 : "use zero = 2, or leave it out");
  }
}

}  // namespace triax
