// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/config/run_config.h"
#include "triax/train/gather.h"

namespace triax {

struct Replay {
  TensorMap weights;          // at the end
  std::vector<double> norms;  // by step, before clipping
  double lr_sum = 0;          // of the steps
};

/// What one rank's optimizer makes of `start` when each step has the given
/// gradients: norm, clipping, learning rate, groups, freezing and
/// decay are taken from the config and from whole tensors, nothing from a
/// layout. `start` and the gradients are of one dtype, fp32 or fp64.
Replay replay_optimizer(const RunConfig& config,
                        const TensorMap& start,
                        const std::vector<TensorMap>& gradients);

}  // namespace triax
