// SPDX-License-Identifier: Apache-2.0
#include "triax/config/pattern_setting.h"

#include "triax/config/name_pattern.h"

namespace triax {

PatternSetting pattern_setting(const OptimizerConfig& optimizer,
                               const std::string& logical_name) {
  for (const std::string& pattern : optimizer.freeze) {
    if (matches_pattern(pattern, logical_name)) {
      return {.is_frozen = true, .lr = {}, .weight_decay = {}};
    }
  }
  PatternSetting setting;
  for (const OptimizerGroup& group : optimizer.group) {
    if (matches_pattern(group.pattern, logical_name)) {
      setting.lr = group.lr ? group.lr : setting.lr;
      setting.weight_decay =
          group.weight_decay ? group.weight_decay : setting.weight_decay;
    }
  }
  return setting;
}

}  // namespace triax
