// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
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

/// Builds and places this rank's part, without storage. The config must be
/// resolved. Every rank of the mesh may call alone, no communication takes
/// place.
RankModel place_rank_model(const RunConfig& config,
                           DeviceMesh& mesh,
                           Break broken = Break::kNone);

/// Gets storage for the parameters and draws them; nothing that another rank
/// owns is allocated. Where ZeRO splits the parameters, unit by unit, else all
/// at once: `take_over` gets the slots of each, in the model's order.
void draw_parameters(
    const RunConfig& config,
    RankModel& rank_model,
    Break broken,
    const std::function<void(const std::vector<ParameterSlot*>& slots)>&
        take_over);

/// Places and draws it, whole.
RankModel build_rank_model(const RunConfig& config, DeviceMesh& mesh);

/// Spoils drawn weights. Every rank must call.
void break_weights(const RunConfig& config,
                   const DeviceMesh& mesh,
                   const RankModel& rank_model,
                   Break broken);

}  // namespace triax
