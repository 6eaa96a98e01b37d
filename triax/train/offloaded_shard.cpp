// SPDX-License-Identifier: Apache-2.0
#include "triax/train/offloaded_shard.h"

#include "triax/base/error.h"
#include "triax/model/scalar_type.h"

namespace triax {

static_assert(kSpillElements == kSpillAlignment &&
                  kSpillWindowElements == kWindowNumel &&
                  kSpillWindows == kNumWindows,
              "the plan counts what memory/spilled_arrays does");

OffloadedShard::OffloadedShard(const RunConfig& config,
                               const FlatLayout& layout,
                               const std::string& rank_text)
    : flat_(layout), spill_(spill_layout(layout)) {
  const OffloadedStates states = offloaded_states(config);
  const Precision precision = config.training.precision;
  const at::ScalarType master = to_scalar_type(master_dtype(precision));
  std::vector<SpilledArray> arrays;
  const auto add = [&](const std::string& name, at::ScalarType dtype) {
    arrays.push_back({name, dtype});
    return static_cast<int>(arrays.size()) - 1;
  };
  if (states.optimizer) {
    if (has_master_weights(precision)) {
      places_.master = add("master", master);
    }
    for (const std::string& name : optimizer_state_names(config.optimizer)) {
      places_.states.push_back(add(name, master));
    }
  }
  if (states.gradients) {
    places_.gradient = add("gradient", master);
  }
  if (states.parameters) {
    places_.parameter =
        add("parameter", to_scalar_type(parameter_dtype(precision)));
  }
  arrays_ = std::make_unique<SpilledArrays>(
      offload_folder(config),
      spill_.numel,
      std::move(arrays),
      SpilledArraysOptions{
          .file = {.what = "the offloaded state of " + rank_text}});
  TRIAX_CHECK(arrays_->nbytes() == spilled_bytes(config, layout).total(),
              arrays_->nbytes());
  places_.file = arrays_.get();
}

OffloadedOptimizer OffloadedShard::optimizer(
    const std::vector<ShardSlice>& slices) {
  OffloadedOptimizer optimizer = places_;
  for (const ShardSlice& slice : slices) {
    optimizer.places.push_back(spilled_place(spill_, flat_, slice));
  }
  return optimizer;
}

GradientFile OffloadedShard::gradients() {
  return places_.gradient < 0
             ? GradientFile{}
             : GradientFile{arrays_.get(), places_.gradient, spill_};
}

std::unique_ptr<OffloadedShard> make_offloaded_shard(
    const RunConfig& config,
    const FlatLayout& layout,
    const std::string& rank_text) {
  if (!offloaded_states(config).any_of_shard()) {
    return nullptr;
  }
  return std::make_unique<OffloadedShard>(config, layout, rank_text);
}

}  // namespace triax
