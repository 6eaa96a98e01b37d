// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/parameter_groups.h"

#include <algorithm>
#include <string>

#include "triax/base/error.h"
#include "triax/config/name_pattern.h"
#include "triax/config/pattern_setting.h"

namespace triax {
namespace {

bool is_decayed(ParameterRole role) {
  return role != ParameterRole::kNorm && role != ParameterRole::kBias;
}

ParameterSetting setting_of(const OptimizerConfig& config,
                            ParameterRole role,
                            const std::string& logical_name) {
  const PatternSetting by_pattern = pattern_setting(config, logical_name);
  if (by_pattern.is_frozen) {
    return {.lr_scale = 1.0, .weight_decay = 0.0, .is_frozen = true};
  }
  const double decay = is_decayed(role) ? config.weight_decay : 0.0;
  return {.lr_scale = by_pattern.lr ? *by_pattern.lr / config.lr : 1.0,
          .weight_decay = by_pattern.weight_decay.value_or(decay)};
}

// Every pattern with the field it stands in.
struct NamedPattern {
  std::string pattern;
  std::string field;
};

std::vector<NamedPattern> all_patterns(const OptimizerConfig& config) {
  std::vector<NamedPattern> patterns;
  for (const std::string& pattern : config.freeze) {
    patterns.push_back({pattern, "optimizer.freeze"});
  }
  for (const OptimizerGroup& group : config.group) {
    patterns.push_back({group.pattern, "optimizer.group"});
  }
  return patterns;
}

Error split_error(const OptimizerConfig& config,
                  const ParameterLayout& layout,
                  const std::string& first,
                  const std::string& other) {
  const std::vector<NamedPattern> patterns = all_patterns(config);
  const auto splits = [&](const NamedPattern& named) {
    return matches_pattern(named.pattern, first) !=
           matches_pattern(named.pattern, other);
  };
  const auto found = std::find_if(patterns.begin(), patterns.end(), splits);
  TRIAX_CHECK(found != patterns.end(), layout.name);
  const bool has_first = matches_pattern(found->pattern, first);
  return Error(found->field,
               " pattern \"",
               found->pattern,
               "\" matches ",
               has_first ? first : other,
               " but not ",
               has_first ? other : first,
               ", and both are stored as one parameter, ",
               layout.name,
               "; use a pattern that matches all of it");
}

void check_group(const OptimizerConfig& config, const OptimizerGroup& group) {
  if (!group.lr && !group.weight_decay) {
    throw Error("optimizer.group with pattern \"",
                group.pattern,
                "\" sets neither lr nor weight_decay; give one or remove it");
  }
  if (group.lr.value_or(0.0) < 0.0 || group.weight_decay.value_or(0.0) < 0.0) {
    throw Error("optimizer.group with pattern \"",
                group.pattern,
                "\": lr and weight_decay must not be negative");
  }
  if (group.lr && !(config.lr > 0.0)) {
    throw Error("optimizer.group with pattern \"",
                group.pattern,
                "\" sets an lr, which follows the schedule of optimizer.lr; "
                "optimizer.lr must then be above 0");
  }
}

bool matches_any(const std::string& pattern,
                 const std::vector<ParameterLayout>& model) {
  return std::any_of(
      model.begin(), model.end(), [&](const ParameterLayout& layout) {
        return std::any_of(layout.pieces.begin(),
                           layout.pieces.end(),
                           [&](const Piece& piece) {
                             return matches_pattern(pattern,
                                                    piece.logical_name);
                           });
      });
}

}  // namespace

ParameterSetting parameter_setting(const OptimizerConfig& config,
                                   const ParameterLayout& layout) {
  TRIAX_CHECK(!layout.pieces.empty(), layout.name);
  const std::string& first = layout.pieces[0].logical_name;
  const ParameterSetting setting = setting_of(config, layout.role, first);
  for (const Piece& piece : layout.pieces) {
    if (setting_of(config, layout.role, piece.logical_name) != setting) {
      throw split_error(config, layout, first, piece.logical_name);
    }
  }
  return setting;
}

void check_parameter_groups(const OptimizerConfig& config,
                            const std::vector<ParameterLayout>& model) {
  for (const OptimizerGroup& group : config.group) {
    check_group(config, group);
  }
  for (const auto& [pattern, field] : all_patterns(config)) {
    if (!matches_any(pattern, model)) {
      throw Error(field,
                  " pattern \"",
                  pattern,
                  "\" matches no parameter of the model; patterns match whole "
                  "logical names, such as ",
                  model.empty() || model[0].pieces.empty()
                      ? "model.norm.weight"
                      : model[0].pieces[0].logical_name,
                  ", with * and ?");
    }
  }
  for (const ParameterLayout& layout : model) {
    parameter_setting(config, layout);
  }
}

}  // namespace triax
