// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/config/model_part.h"
#include "triax/config/run_config.h"

namespace triax {

/// The layers of each of the config's pp stages, in order: the first holds the
/// embedding, the last the head.
///
/// `stages` = "auto" (empty) makes the heaviest stage as light as it can be,
/// each with a layer at least, the first ones taking what does not divide: 46
/// over 4 is 12, 12, 11, 11. With weigh_embedding_and_head the embedding and
/// the head count as V * H / (parameters of a layer) layers each: BLOOM's 70
/// layers over 12 stages become 5, ten times 6, 5.
/// Throws Error when layers are fewer than stages, or a list does not fit.
std::vector<ModelPart> split_stages(const ModelConfig& model,
                                    const ParallelConfig& parallel);

}  // namespace triax
