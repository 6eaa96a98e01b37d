// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triax/check/foreign_rules.h"
#include "triax/plan/memory_model.h"

namespace triax {

/// What a system keeps of each parameter from step to step on a rank, at
/// least: what is not certain (moments of an optimizer that the program
/// brings, a second copy of the weights) counts nothing.
struct KeptStates {
  StateBytes bytes;  // of one parameter, before ZeRO splits them
  int stage = 0;     // what is split, as ZeRO counts
  /// Ranks that they are split over; empty: it takes the world.
  std::optional<int64_t> shards = {};
  /// Why it is not known: "bf16.enabled is \"auto\""; empty: it is.
  std::string unknown = {};
};

/// Of DeepSpeed, Megatron-LM, TorchTitan and nanotron.
KeptStates kept_states(const ForeignFindings& findings, const Layout& layout);

}  // namespace triax
