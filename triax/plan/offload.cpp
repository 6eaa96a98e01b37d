// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/offload.h"

#include <algorithm>

#include "triax/base/dtype.h"
#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/config/pattern_setting.h"
#include "triax/plan/parameter_units.h"

namespace triax {
namespace {

int64_t whole_blocks(int64_t numel) {
  return round_up(numel, kSpillElements);
}

int64_t master_bytes(const RunConfig& config) {
  return dtype_bytes(master_dtype(config.training.precision));
}

int64_t parameter_bytes(const RunConfig& config) {
  return dtype_bytes(parameter_dtype(config.training.precision));
}

/// One stage's parameters in the order in which backward finishes them.
struct StageParameters {
  std::vector<ParameterLayout> all;
  std::vector<bool> is_trained;
  std::vector<ParameterLayout> trained;
};

StageParameters stage_parameters(const RunConfig& config,
                                 const std::vector<ParameterLayout>& stored) {
  StageParameters parameters;
  parameters.all.assign(stored.rbegin(), stored.rend());
  for (const ParameterLayout& layout : parameters.all) {
    TRIAX_CHECK(!layout.pieces.empty(), layout.name, " is padding alone");
    const std::string& name = layout.pieces.front().logical_name;
    parameters.is_trained.push_back(
        !pattern_setting(config.optimizer, name).is_frozen);
    if (parameters.is_trained.back()) {
      parameters.trained.push_back(layout);
    }
  }
  return parameters;
}

FlatLayout trained_layout_of(const RunConfig& config,
                             const std::vector<ParameterLayout>& stored) {
  return flat_layout(config, stage_parameters(config, stored).trained);
}

/// Elements of the frozen parameters on file: buckets that no gradient has.
int64_t frozen_numel(const RunConfig& config,
                     const std::vector<ParameterLayout>& stored) {
  const StageParameters parameters = stage_parameters(config, stored);
  const FlatLayout all =
      unit_layout(config, parameters.all, parameters.is_trained).flat;
  return spill_layout(all).numel -
         spill_layout(flat_layout(config, parameters.trained)).numel;
}

int64_t gradient_part_bytes(const RunConfig& config,
                            const FlatLayout& layout,
                            const SpillLayout& spill) {
  if (!offloaded_states(config).gradients) {
    return 0;
  }
  int64_t largest = 0;
  for (const Range& bucket : spill.buckets) {
    largest = std::max(largest, bucket.length);
  }
  // One replica has no buckets but those of its file.
  const int num_blocks =
      splits_gradients(config.parallel) ? 0 : kMaxGradientBlocks;
  return master_bytes(config) *
         (kMaxGradientParts * largest + num_blocks * layout.largest_bucket());
}

/// Of units that are sent, and of one that is read ahead.
int64_t parameter_part_bytes(const RunConfig& config,
                             const std::vector<ParameterLayout>& stored) {
  if (!offloaded_states(config).parameters) {
    return 0;
  }
  const StageParameters parameters = stage_parameters(config, stored);
  const UnitLayout units =
      unit_layout(config, parameters.all, parameters.is_trained);
  int64_t largest = 0;
  for (const ParameterUnit& unit : units.units) {
    // Each bucket's part fills blocks of its own.
    int64_t numel = 0;
    for (const int bucket : unit.buckets) {
      numel += whole_blocks(units.flat.buckets[bucket].range.length /
                            num_shards(config.parallel));
    }
    largest = std::max(largest, numel);
  }
  return parameter_bytes(config) * (2 + config.parallel.prefetch) * largest;
}

}  // namespace

bool names_offload_state(const RunConfig& config, const std::string& state) {
  const std::vector<std::string>& states = config.memory.offload_states;
  return std::find(states.begin(), states.end(), state) != states.end();
}

OffloadedStates offloaded_states(const RunConfig& config) {
  if (config.memory.offload != Offload::kNvme) {
    return {};
  }
  return {.optimizer = names_offload_state(config, "optimizer"),
          .gradients = names_offload_state(config, "gradients"),
          .parameters = names_offload_state(config, "parameters"),
          .activations = names_offload_state(config, "activations")};
}

SpillLayout spill_layout(const FlatLayout& layout) {
  SpillLayout spill;
  for (const Bucket& bucket : layout.buckets) {
    const int64_t length =
        whole_blocks(bucket.range.length / layout.num_shards);
    spill.buckets.push_back({spill.numel, length});
    spill.numel += length;
  }
  return spill;
}

Range spilled_place(const SpillLayout& spill,
                    const FlatLayout& layout,
                    const ShardSlice& slice) {
  const int64_t in_bucket =
      slice.offset - start_in_shard(layout, layout.buckets[slice.bucket]);
  return {spill.buckets[slice.bucket].start + in_bucket, slice.elements.length};
}

int64_t optimizer_element_bytes(const RunConfig& config) {
  const int64_t num_masters =
      has_master_weights(config.training.precision) ? 1 : 0;
  return master_bytes(config) * (config.optimizer.num_states() + num_masters);
}

SpilledBytes spilled_bytes(const RunConfig& config, const FlatLayout& layout) {
  const OffloadedStates states = offloaded_states(config);
  const int64_t numel = spill_layout(layout).numel;
  SpilledBytes bytes;
  if (states.optimizer) {
    bytes.optimizer = numel * optimizer_element_bytes(config);
  }
  if (states.gradients) {
    bytes.gradients = numel * master_bytes(config);
  }
  if (states.parameters) {
    bytes.parameters = numel * parameter_bytes(config);
  }
  return bytes;
}

SpilledBytes spilled_bytes_of_rank(const RunConfig& config,
                                   const std::vector<ParameterLayout>& stored) {
  SpilledBytes bytes = spilled_bytes(config, trained_layout_of(config, stored));
  if (offloaded_states(config).parameters) {
    bytes.parameters += parameter_bytes(config) * frozen_numel(config, stored);
  }
  return bytes;
}

int64_t spill_buffer_bytes(const RunConfig& config,
                           const std::vector<ParameterLayout>& stored) {
  const FlatLayout layout = trained_layout_of(config, stored);
  const SpillLayout spill = spill_layout(layout);
  const int64_t of_element =
      spilled_bytes(config, layout).total() / std::max<int64_t>(spill.numel, 1);
  const int64_t num_windows = divide_up(spill.numel, kSpillWindowElements);
  const int64_t windows = of_element *
                          std::min<int64_t>(num_windows, kSpillWindows) *
                          std::min(spill.numel, kSpillWindowElements);
  return std::max(windows,
                  gradient_part_bytes(config, layout, spill) +
                      parameter_part_bytes(config, stored));
}

std::string offload_folder(const RunConfig& config) {
  const std::string& dir = config.memory.offload_dir.empty()
                               ? config.run.dir
                               : config.memory.offload_dir;
  return dir.empty() ? "." : dir;
}

}  // namespace triax
