// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/parameter_units.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "triax/base/error.h"

namespace triax {
namespace {

/// Numbers that differ where a bucket must end: between units, and between what
/// is trained and what is not.
FlatOptions options_of(const std::vector<UnitParameter>& parameters,
                       int64_t bucket_numel,
                       int num_shards) {
  FlatOptions options{.bucket_numel = bucket_numel, .num_shards = num_shards};
  int part = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool begins =
        i > 0 && (parameters[i].unit != parameters[i - 1].unit ||
                  parameters[i].is_trained != parameters[i - 1].is_trained);
    part += begins ? 1 : 0;
    options.part.push_back(part);
    options.is_alone.push_back(parameters[i].is_alone);
  }
  return options;
}

std::vector<int64_t> numels_of(const std::vector<UnitParameter>& parameters) {
  std::vector<int64_t> numels;
  for (const UnitParameter& parameter : parameters) {
    numels.push_back(parameter.numel);
  }
  return numels;
}

}  // namespace

UnitLayout make_unit_layout(const std::vector<UnitParameter>& parameters,
                            int64_t bucket_numel,
                            int num_shards) {
  UnitLayout layout;
  layout.flat = make_flat_layout(
      numels_of(parameters), options_of(parameters, bucket_numel, num_shards));
  std::set<std::string> seen;
  for (size_t b = 0; b < layout.flat.buckets.size(); ++b) {
    const Bucket& bucket = layout.flat.buckets[b];
    const std::string& name = parameters[bucket.parameters.front()].unit;
    if (layout.units.empty() || layout.units.back().name != name) {
      TRIAX_CHECK(seen.insert(name).second, name, " is torn apart");
      layout.units.push_back({name, {}, {}, {bucket.range.start, 0}});
    }
    ParameterUnit& unit = layout.units.back();
    unit.buckets.push_back(static_cast<int>(b));
    unit.parameters.insert(unit.parameters.end(),
                           bucket.parameters.begin(),
                           bucket.parameters.end());
    unit.range.length += bucket.range.length;
  }
  return layout;
}

FlatLayout trained_layout(const std::vector<UnitParameter>& parameters,
                          int64_t bucket_numel,
                          int num_shards) {
  std::vector<UnitParameter> trained;
  for (const UnitParameter& parameter : parameters) {
    if (parameter.is_trained) {
      trained.push_back(parameter);
    }
  }
  return make_flat_layout(numels_of(trained),
                          options_of(trained, bucket_numel, num_shards));
}

std::string unit_of_parameter(const std::string& stored_name) {
  const std::string blocks = "blocks.";
  if (stored_name.starts_with(blocks)) {
    return stored_name.substr(0, stored_name.find('.', blocks.size()));
  }
  const bool is_first = stored_name.starts_with("embedding.") ||
                        stored_name.starts_with("position_embedding.");
  return is_first ? "embedding" : "head";
}

std::vector<UnitParameter> unit_parameters(
    const RunConfig& config,
    const std::vector<ParameterLayout>& parameters,
    const std::vector<bool>& is_trained) {
  std::vector<UnitParameter> list;
  for (const ParameterLayout& layout : parameters) {
    list.push_back({.numel = layout.numel(),
                    .unit = unit_of_parameter(layout.name),
                    .is_trained = is_trained.empty() || is_trained[list.size()],
                    .is_alone = is_tied_across_stages(config, layout)});
  }
  return list;
}

UnitLayout unit_layout(const RunConfig& config,
                       const std::vector<ParameterLayout>& parameters,
                       const std::vector<bool>& is_trained,
                       std::vector<int>* order) {
  const std::vector<UnitParameter> given =
      unit_parameters(config, parameters, is_trained);
  std::vector<int> indices(given.size());
  std::iota(indices.begin(), indices.end(), 0);
  for (auto first = indices.begin(); first != indices.end();) {
    const auto last = std::find_if(first, indices.end(), [&](int index) {
      return given[index].unit != given[*first].unit;
    });
    std::stable_partition(
        first, last, [&](int index) { return given[index].is_trained; });
    first = last;
  }
  std::vector<UnitParameter> ordered;
  for (const int index : indices) {
    ordered.push_back(given[index]);
  }
  if (order != nullptr) {
    *order = indices;
  }
  return make_unit_layout(
      ordered, bucket_numel(config), num_shards(config.parallel));
}

int64_t most_gathered(const UnitLayout& layout, int ahead) {
  const size_t count = layout.units.size();
  const size_t width = std::min(static_cast<size_t>(ahead) + 1, count);
  int64_t most = 0;
  for (size_t first = 0; first < count; ++first) {
    int64_t sum = 0;
    for (size_t i = 0; i < width; ++i) {
      sum += layout.units[(first + i) % count].range.length;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace triax
