// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/optim/optimizer.h"
#include "triax/train/gather.h"

namespace triax {

/// What one rank's optimizer makes of `start` when it is given each step's
/// gradients: norm, clipping, learning rate, groups, freezing and decay are
/// taken from the config and from whole tensors, nothing from a layout.
class Replay {
 public:
  /// `start` and the gradients are of one dtype, fp32 or fp64.
  Replay(const RunConfig& config, const TensorMap& start);

  /// One update. Returns the norm of the gradients, before clipping.
  double step(const TensorMap& gradients);

  const TensorMap& weights() const { return weights_; }
  /// The learning rates of the steps, added up.
  double lr_sum() const { return lr_sum_; }

 private:
  /// A parameter that is trained, and where its gradient is put.
  struct Trained {
    std::string name;
    at::Tensor gradient;
  };

  double norm() const;

  const RunConfig config_;
  TensorMap weights_;
  std::vector<Trained> trained_;
  std::unique_ptr<Optimizer> optimizer_;
  double lr_sum_ = 0;
};

}  // namespace triax
