// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"

namespace triax {

/// How the optimizer treats one stored parameter.
struct ParameterSetting {
  double lr_scale = 1.0;  // times the scheduled lr
  double weight_decay = 0.0;
  bool is_frozen = false;  // no gradient, no state, no update

  bool operator==(const ParameterSetting&) const = default;
};

/// The setting of one stored parameter.
///
/// Without patterns: norms and biases are not decayed; embeddings, position
/// embeddings, matrices and the head are, as in Hugging Face's Trainer and (by
/// "one-dimensional or a bias") Megatron-LM. Then each optimizer.group whose
/// pattern matches a logical name sets what it gives, whatever the role; where
/// two groups set the same value the later one wins. A group's lr follows the
/// schedule: lr_scale = group lr / optimizer.lr, so its min_lr scales too.
/// optimizer.freeze goes before all groups.
///
/// Throws Error, naming pattern and parameter, when the pieces of `layout` (a
/// fused qkv) would get different settings: they share one stored tensor.
ParameterSetting parameter_setting(const OptimizerConfig& config,
                                   const ParameterLayout& layout);

/// Throws Error for a pattern that matches no logical name of `model`, a group
/// that sets nothing or a negative value, and whatever parameter_setting()
/// throws. `model` holds the layouts of the whole model, all stages (of one
/// tensor-parallel rank), so that every rank finds the same.
void check_parameter_groups(const OptimizerConfig& config,
                            const std::vector<ParameterLayout>& model);

}  // namespace triax
