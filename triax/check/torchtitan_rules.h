// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triax/check/foreign_findings.h"

namespace triax {

/// What TorchTitan 0.2.2 refuses, ignores or does differently from what its
/// config seems to say. Each rule names the place in TorchTitan it is from.
void check_torchtitan(ForeignFindings& findings);

// Its parts.
void check_torchtitan_layout(ForeignFindings& findings);
void check_torchtitan_pipeline(ForeignFindings& findings);
void check_torchtitan_model(ForeignFindings& findings);
void check_torchtitan_training(ForeignFindings& findings);

/// The ranks that share one copy: as set, or what the world leaves; nullopt:
/// it cannot be told.
std::optional<int64_t> torchtitan_shards(const ForeignFindings& findings);

/// torch.compile is on for the model itself.
bool torchtitan_compiles_model(const ForeignFindings& findings);

}  // namespace triax
