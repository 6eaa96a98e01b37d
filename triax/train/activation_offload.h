// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triax/config/run_config.h"
#include "triax/memory/activation_file.h"
#include "triax/mesh/device_mesh.h"
#include "triax/train/rank_model.h"

namespace triax {

/// The file that this rank's activations move to, of the size that the memory
/// model says; null where the config moves none. The model's parameters stay.
/// Needs install_saved_tensor_hooks(); throws Error without, and where the disk
/// has no room. Every rank may call alone.
std::shared_ptr<ActivationFile> make_activation_file(
    const RunConfig& config,
    const DeviceMesh& mesh,
    const RankModel& rank_model);

}  // namespace triax
