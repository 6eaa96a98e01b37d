// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/config/run_config.h"
#include "triax/plan/stage_memory.h"

namespace triax {

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
