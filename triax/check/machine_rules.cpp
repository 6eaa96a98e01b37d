// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/check/memory_advice.h"
#include "triax/comm/emulation.h"
#include "triax/config/run_config.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/reference_runs.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"
#include "triax/plan/zero_stages.h"

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
        fmt::format("{} ranks share {}: they mostly wait for "
                    "each other",
                    ranks,
                    counted(cores, "core")),
        fmt::format("use at most {} ranks on this machine", 4 * cores));
  } else if (parallel.tp > cores) {
    findings.note("tp-exceeds-cores",
                  "parallel.tp",
                  fmt::format("tp {} on {}: the ranks that split a layer "
                              "take turns",
                              parallel.tp,
                              counted(cores, "core")),
                  "");
  }
}

namespace {

void check_verify_memory(Findings& findings, int64_t available) {
  const VerifyMemory memory = predict_verify_memory(findings.config);
  const int64_t all = memory.layout_bytes + memory.reference_bytes;
  if (all > available) {
    findings.warning(
        "memory-exceeds-machine",
        "model",
        fmt::format("verify needs {}, {} of it for the layout and {} for the "
                    "runs on one rank beside it, and this machine has {}",
                    format_bytes(all),
                    format_bytes(memory.layout_bytes),
                    format_bytes(memory.reference_bytes),
                    format_bytes(available)),
        "verify the layout on a smaller model: fewer layers, a smaller "
        "vocabulary");
  }
}

void check_limit(Findings& findings) {
  const int64_t limit = findings.config.memory.limit;
  if (limit == 0 || findings.options.is_verify) {
    return;  // verify holds runs on one rank too, and has no limit
  }
  const int64_t heaviest = heaviest_rank_bytes(findings.config);
  if (heaviest > limit) {
    findings.warning(
        "memory-exceeds-limit",
        "memory.limit",
        fmt::format("the heaviest rank needs {} and what it communicates "
                    "through, {} more than {}",
                    format_bytes(heaviest),
                    format_bytes(heaviest - limit),
                    format_bytes(limit)),
        to_text(advise_on_memory(findings.config, {.limit_bytes = limit})));
  }
}

std::string needs_text(int num_ranks, int64_t all, int64_t heaviest) {
  return num_ranks == 1
             ? fmt::format("one rank needs {}", format_bytes(all))
             : fmt::format("{} ranks need {} together, {} the largest",
                           num_ranks,
                           format_bytes(all),
                           format_bytes(heaviest));
}

}  // namespace

void check_memory(Findings& findings) {
  check_limit(findings);
  const int64_t available = findings.options.memory_bytes;
  const ParallelConfig& parallel = findings.config.parallel;
  if (available == 0) {
    return;
  }
  if (findings.options.is_verify) {
    check_verify_memory(findings, available);
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
        fmt::format("{}, and this machine has {}",
                    needs_text(findings.config.world_size(), all, heaviest),
                    format_bytes(available)),
        "use a smaller model, microbatch or dp; train --dry-run shows what "
        "takes it");
  }
}

namespace {

// 64 ranks start within 0.7 s of each other on two cores.
constexpr double kLeastDeadlineSeconds = 1.0;

/// Bytes of the largest message over an axis, and the operation it belongs to.
struct LargestMessage {
  OpKind op = OpKind::kAllReduce;
  int degree = 1;
  int64_t nbytes = 0;
};

LargestMessage largest_message(const RunConfig& config,
                               const std::string& axis) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t size = dtype_bytes(parameter_dtype(config.training.precision));
  const int64_t activation = config.training.microbatch_size *
                             config.data.sequence_length *
                             config.model.hidden_size * size;
  if (axis == "pp") {
    return {OpKind::kSend, parallel.pp, activation / config.sequence_shares()};
  }
  if (axis == "tp") {
    return {config.sequence_shares() > 1 ? OpKind::kReduceScatter
                                         : OpKind::kAllReduce,
            parallel.tp,
            activation};
  }
  // A bucket of gradients, unless one parameter is larger.
  const int64_t gradient = dtype_bytes(master_dtype(config.training.precision));
  int64_t all = 0;
  int64_t largest = 0;
  for (const ModelPart& part : split_stages(config.model, parallel)) {
    int64_t stage = 0;
    for (const ParameterLayout& layout :
         parameter_layouts(config.model, part, parallel.tp, 0)) {
      stage += layout.numel() * gradient;
      largest = std::max(largest, layout.numel() * gradient);
    }
    all = std::max(all, stage);
  }
  const bool is_scattered =
      parallel.dp > 1 && num_shards(parallel) == parallel.dp;
  const int64_t sent = parallel.reduce_dtype == ReduceDtype::kGradients
                           ? gradient
                           : dtype_bytes(DType::kBfloat16);
  return {is_scattered ? OpKind::kReduceScatter : OpKind::kAllReduce,
          parallel.dp,
          std::min(all, std::max(largest, parallel.bucket_bytes)) / gradient *
              sent};
}

}  // namespace

void check_deadline_floor(Findings& findings) {
  const double deadline = findings.config.comm.deadline_seconds;
  if (deadline < kLeastDeadlineSeconds) {
    findings.error(
        "deadline-too-short",
        "comm.deadline",
        fmt::format("{} is less than a healthy rank is late at times: it "
                    "starts, computes between two operations, and waits for "
                    "a core",
                    format_duration(deadline)),
        fmt::format("use at least {}; what goes wrong is mostly told at once, "
                    "without a deadline",
                    format_duration(kLeastDeadlineSeconds)));
  }
}

void check_deadline(Findings& findings) {
  const double deadline = findings.config.comm.deadline_seconds;
  for (const auto& [axis, link] : findings.config.comm.emulate) {
    const LargestMessage message = largest_message(findings.config, axis);
    const double seconds =
        emulated_seconds(message.op,
                         message.degree,
                         message.nbytes,
                         {.latency_seconds = link.latency_seconds,
                          .bytes_per_second = link.bytes_per_second});
    if (message.degree > 1 && seconds >= deadline) {
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
