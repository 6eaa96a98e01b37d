// SPDX-License-Identifier: Apache-2.0
#include "triax/train/replay.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <set>

#include "triax/data_parallel/grad_norm.h"
#include "triax/optim/lr_schedule.h"
#include "triax/optim/parameter_groups.h"
#include "triax/plan/sharding.h"

namespace triax {

Replay::Replay(const RunConfig& config, const TensorMap& start)
    : config_(config) {
  for (const auto& [name, tensor] : start) {
    weights_[name] = tensor.clone();
  }
  std::vector<OptimizedTensor> optimized;
  std::set<std::string> seen;  // several pieces may have one name
  for (const ParameterLayout& layout :
       whole_model_layouts(config.model, /*tp=*/1)) {
    const ParameterSetting setting =
        parameter_setting(config.optimizer, layout);
    for (const Piece& piece : layout.pieces) {
      if (setting.is_frozen || !seen.insert(piece.logical_name).second) {
        continue;
      }
      const at::Tensor& weight = weights_.at(piece.logical_name);
      trained_.push_back({piece.logical_name, at::zeros_like(weight)});
      optimized.push_back({.parameter = weight,
                           .gradient = trained_.back().gradient,
                           .lr_scale = setting.lr_scale,
                           .weight_decay = setting.weight_decay});
    }
  }
  optimizer_ = make_optimizer(config.optimizer, std::move(optimized));
}

double Replay::step(const TensorMap& gradients) {
  for (Trained& parameter : trained_) {
    parameter.gradient.copy_(gradients.at(parameter.name));
  }
  const double lr = learning_rate(
      config_.optimizer, config_.training.steps, optimizer_->num_steps());
  lr_sum_ += lr;
  const double before_clipping = norm();
  optimizer_->step(
      lr, clip_factor(before_clipping, config_.training.gradient_clipping));
  return before_clipping;
}

double Replay::norm() const {
  double squares = 0;
  for (const Trained& parameter : trained_) {
    squares += sum_of_squares(parameter.gradient);
  }
  return std::sqrt(squares);
}

}  // namespace triax
