// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triax/config/model_part.h"
#include "triax/config/run_config.h"
#include "triax/plan/activation_offload.h"

namespace triax {

/// What one kind of thing takes in memory, and how that was counted.
struct MemoryLine {
  std::string what;
  int64_t nbytes = 0;
  std::string formula;
  bool is_state = false;   // kept from step to step
  int64_t disk_bytes = 0;  // that lie on file instead
};

/// The memory of each rank of one pipeline stage: the ranks of a stage store
/// equal shapes, padding included, so one answer holds for all of them.
struct StageMemory {
  ModelPart part;
  int num_live_microbatches = 1;
  std::vector<MemoryLine> lines;
  /// Where activations move to a file.
  std::optional<ActivationOffload> activation_offload = {};

  int64_t total_bytes() const;
  /// Of those lines that are kept from step to step.
  int64_t state_bytes() const;
  /// On file, beside the total.
  int64_t disk_bytes() const;
};

/// Peak bytes of a training step by stage, for a resolved config:
///   parameters, gradients, buckets, optimizer state   plan/zero_stages: what
///                 the rank with most of them holds, padding included; of
///                 what is offloaded the windows of an update, and apart from
///                 the total the bytes on file
///   gathered      with ZeRO 3, units of parameters that are whole at a time
///   activations   what the layers keep for backward, for each microbatch that
///                 the schedule's own action list holds at its peak; with
///                 fp16-sized elements and equal shares a Llama layer keeps
///                 s b [8 h + ((4 + 4 k/a) h + 6 f) / tp] bytes (Korthikanti et
///                 al. 2022, with flash attention and SwiGLU), all of it
///                 divided by tp with sequence parallelism. Selective
///                 recompute leaves out 4 h (what norms give) and 2 f (the
///                 gated product); full keeps 2 h a layer
///                 Where they move to a file, these stay: the newest and those
///                 read ahead (windows), those on their way, the two widest
///                 of one layer, and the inputs that a stage received
///   recomputed    with full recompute: what one layer, or group, keeps while
///                 its backward runs
///   logits        s b V/tp elements kept for each live microbatch; for one
///                 where activations move, since the newest tensor stays
///   pipeline      stage outputs and gradients of them on their way
///   working       the largest temporaries of one backward
/// Counted as if every parameter is trained. Not counted: the program and its
/// libraries, the allocator's fragments, message buffers, the data.
std::vector<StageMemory> predict_memory(const RunConfig& config);

/// The stage whose ranks need most. `stages` must not be empty.
const StageMemory& heaviest_stage(const std::vector<StageMemory>& stages);

/// One row per kind, one column per stage, the totals, and how the heaviest
/// stage was counted. Ends with a newline.
std::string memory_table(const std::vector<StageMemory>& stages);

/// Bytes of weights, gradients and optimizer state for each parameter.
struct StateBytes {
  double weight = 2.0;
  double gradient = 2.0;
  double optimizer = 12.0;  // fp32 master weights and Adam's two moments
};

/// Bytes of model states on each of dp ranks (Rajbhandari et al. 2020, ZeRO):
/// stage 1 splits the optimizer state, 2 the gradients too, 3 the weights too.
double zero_model_state_bytes(double num_parameters,
                              int zero_stage,
                              int dp,
                              const StateBytes& bytes);

}  // namespace triax
