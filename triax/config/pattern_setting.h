// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triax/config/run_config.h"

namespace triax {

/// What optimizer.freeze and the optimizer.groups make of one logical
/// parameter. Freezing goes before all groups; where two groups set the same
/// value the later one wins.
struct PatternSetting {
  bool is_frozen = false;  // the rest is then empty
  std::optional<double> lr;
  std::optional<double> weight_decay;

  bool operator==(const PatternSetting&) const = default;
};

PatternSetting pattern_setting(const OptimizerConfig& optimizer,
                               const std::string& logical_name);

}  // namespace triax
