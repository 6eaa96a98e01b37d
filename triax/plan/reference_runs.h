// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

// The runs on one rank that `verify` compares a layout with.

/// Whether replicas send gradients in a narrower type than theirs; one replica
/// sends none.
bool sends_narrower(const ParallelConfig& parallel);

/// Whether the layout's gradients are one rank's but for the last bits: in
/// fp64, where replicas send them as they are.
bool has_exact_gradients(const RunConfig& config);

/// The run of `config` on one rank.
RunConfig one_rank_config(RunConfig config, int64_t microbatch_size);

/// The run on one rank that the layout is compared with. Where gradients are
/// not exact it is given its weights before each step, so it needs no optimizer
/// state and has none.
RunConfig reference_config(const RunConfig& config);

/// Runs on one rank that differ from the reference by rounding only: with
/// another microbatch size, and in a wider type. They are given their weights
/// before each step. None in fp64.
std::vector<RunConfig> noise_configs(const RunConfig& config);

/// What `verify` takes at its peak.
struct VerifyMemory {
  int64_t layout_bytes = 0;     // of all ranks, as in training
  int64_t reference_bytes = 0;  // on world rank 0, beside its part of that
};

/// Counted as predict_memory() does. World rank 0 keeps, however many steps
/// there are: the states of every run on one rank, of which one is in a step at
/// a time; the layout's initial weights; the optimizer that replays its
/// updates; one step's gradients of the layout, of one rank and of one of the
/// other runs; and fp64 copies of a tensor that is compared.
VerifyMemory predict_verify_memory(const RunConfig& config);

}  // namespace triax
