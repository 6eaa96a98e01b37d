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
    : dir_(offload_folder(config)),
      file_({.what = "the offloaded state of " + rank_text}),
      flat_(layout),
      spill_(spill_layout(layout)) {
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
  arrays_ =
      std::make_unique<SpilledArrays>(dir_,
                                      spill_.numel,
                                      std::move(arrays),
                                      SpilledArraysOptions{.file = file_});
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

std::vector<PartPlace> OffloadedShard::parameter_places(
    const UnitLayout& units,
    const std::function<bool(int parameter)>& is_trained) {
  const SpillLayout whole = spill_layout(units.flat);
  std::vector<PartPlace> places;
  size_t num_trained = 0;
  int64_t num_frozen = 0;
  for (size_t b = 0; b < units.flat.buckets.size(); ++b) {
    if (is_trained(units.flat.buckets[b].parameters.front())) {
      places.push_back(
          {arrays_.get(), places_.parameter, spill_.buckets.at(num_trained++)});
    } else {
      places.push_back({nullptr, 0, {num_frozen, whole.buckets[b].length}});
      num_frozen += whole.buckets[b].length;
    }
  }
  TRIAX_CHECK(num_trained == spill_.buckets.size(), num_trained);
  if (num_frozen > 0) {
    const SpilledArray parameters = {"frozen",
                                     arrays_->dtype(places_.parameter)};
    frozen_ =
        std::make_unique<SpilledArrays>(dir_,
                                        num_frozen,
                                        std::vector<SpilledArray>{parameters},
                                        SpilledArraysOptions{.file = file_});
    for (PartPlace& place : places) {
      place.arrays = place.arrays == nullptr ? frozen_.get() : place.arrays;
    }
  }
  return places;
}

int64_t OffloadedShard::nbytes() const {
  return arrays_->nbytes() + (frozen_ ? frozen_->nbytes() : 0);
}

IoBytes OffloadedShard::moved() const {
  IoBytes moved = arrays_->file().moved();
  if (frozen_) {
    moved.read += frozen_->file().moved().read;
    moved.written += frozen_->file().moved().written;
  }
  return moved;
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
