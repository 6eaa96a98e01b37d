// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/comm/group.h"
#include "triax/config/model_part.h"
#include "triax/config/run_config.h"
#include "triax/model/loss.h"
#include "triax/model/transformer.h"

namespace triax {

/// Narrows a model that has no storage yet to this rank's part (the plan's
/// sharding table) and sets the boundaries between its products: qkv, up and
/// head are split by outputs, out and down by inputs, embedding and head by
/// vocabulary. The group must outlive the model. Called for one rank too,
/// since the table also names the logical parameters.
/// With `splits_sequence` the residual stream, the norms and what dropout
/// drops of it hold one of tp equal parts of the sequence (sequence
/// parallelism); the gradients of what is replicated are then partial sums
/// (PartialGradients), and backward gathers a product's input again.
void apply_tensor_parallel(Transformer& model,
                           const ModelConfig& config,
                           const ModelPart& part,
                           Group& tp,
                           bool splits_sequence = false);

/// The loss over logits split by vocabulary: no rank sees them gathered.
LossOptions vocab_parallel_loss(const RunConfig& config, Group& tp);

}  // namespace triax
