// SPDX-License-Identifier: Apache-2.0
#include "triax/train/replay.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "triax/data_parallel/grad_norm.h"
#include "triax/optim/lr_schedule.h"
#include "triax/optim/optimizer.h"
#include "triax/optim/parameter_groups.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

/// A parameter that is trained, and where its gradient is put.
struct Trained {
  std::string name;
  at::Tensor gradient;
};

double norm_of(const std::vector<Trained>& trained) {
  double squares = 0;
  for (const Trained& parameter : trained) {
    squares += sum_of_squares(parameter.gradient);
  }
  return std::sqrt(squares);
}

}  // namespace

Replay replay_optimizer(const RunConfig& config,
                        const TensorMap& start,
                        const std::vector<TensorMap>& gradients) {
  Replay replay;
  TensorMap& weights = replay.weights;
  for (const auto& [name, tensor] : start) {
    weights[name] = tensor.clone();
  }
  std::vector<Trained> trained;
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
      const at::Tensor& weight = weights.at(piece.logical_name);
      trained.push_back({piece.logical_name, at::zeros_like(weight)});
      optimized.push_back({.parameter = weight,
                           .gradient = trained.back().gradient,
                           .lr_scale = setting.lr_scale,
                           .weight_decay = setting.weight_decay});
    }
  }
  const std::unique_ptr<Optimizer> optimizer =
      make_optimizer(config.optimizer, std::move(optimized));
  for (size_t step = 0; step < gradients.size(); ++step) {
    for (Trained& parameter : trained) {
      parameter.gradient.copy_(gradients[step].at(parameter.name));
    }
    const double lr = learning_rate(
        config.optimizer, config.training.steps, static_cast<int64_t>(step));
    replay.lr_sum += lr;
    replay.norms.push_back(norm_of(trained));
    optimizer->step(
        lr,
        clip_factor(replay.norms.back(), config.training.gradient_clipping));
  }
  return replay;
}

}  // namespace triax
