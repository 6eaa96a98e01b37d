// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

// The runs on one rank that `verify` compares a layout with.

/// The run of `config` on one rank.
RunConfig one_rank_config(RunConfig config, int64_t microbatch_size);

/// Runs on one rank that differ from that of `config` by rounding only: with
/// another microbatch size, and in a wider type. None in fp64.
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
