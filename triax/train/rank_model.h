// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "triax/check/breaks.h"
#include "triax/config/model_part.h"
#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/model/loss.h"
#include "triax/model/transformer.h"

namespace triax {

/// One rank's part of the model: its stage's layers, its tp part of each.
struct RankModel {
  ModelPart part;
  std::shared_ptr<Transformer> model;
  std::vector<ParameterSlot*> slots;
  LossOptions loss;  // of the last stage
};

/// Builds, places and draws this rank's part; nothing that another rank owns
/// is allocated. The config must be resolved. Every rank of the mesh may call
/// alone, no communication takes place.
RankModel build_rank_model(const RunConfig& config,
                           DeviceMesh& mesh,
                           Break broken = Break::kNone);

}  // namespace triax
