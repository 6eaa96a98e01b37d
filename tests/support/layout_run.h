// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triax/config/load.h"
#include "triax/mesh/device_mesh.h"
#include "triax/train/trainer.h"
#include "triax/train/verify.h"

namespace triax {

/// "section.key=value", as on the command line.
using Overrides = std::vector<std::string>;

Overrides operator+(Overrides a, const Overrides& b);

/// The overrides of a plan name: "dp2_zero1" is parallel.dp=2 and
/// parallel.zero=1, "group2" parallel.zero_group=2.
Overrides plan_overrides(const std::string& plan);

/// tests/parity/walk.toml with overrides, resolved; not yet checked.
LoadedConfig load_tiny_run(const Overrides& overrides);

/// The config of a run that check_run() must let pass; throws Error with the
/// problem where it does not.
RunConfig checked_tiny_run(const Overrides& overrides);

/// The command that repeats verify_layout() from the repository's root.
std::string verify_command(const Overrides& overrides,
                           const VerifyOptions& options);

/// Two steps are enough to see a first update in a second gradient.
inline const VerifyOptions kTwoSteps = {.num_steps = 2};

/// triax verify with threads for ranks.
VerifyReport verify_layout(const RunConfig& config,
                           const VerifyOptions& options = kTwoSteps);

/// Calls `body` on every rank of the layout, a thread each, with its trainer.
/// A step that throws fails the board, unless the options say otherwise.
void train_layout(const RunConfig& config,
                  const std::function<void(Trainer&, DeviceMesh&)>& body,
                  const TrainerOptions& options = {});

}  // namespace triax
