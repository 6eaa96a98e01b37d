// SPDX-License-Identifier: Apache-2.0
#include "triax/train/trained_parameters.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "triax/base/error.h"
#include "triax/data_parallel/grad_norm.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/model/scalar_type.h"
#include "triax/optim/parameter_groups.h"
#include "triax/plan/parameter_units.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

// Kinds of passes through the model.
constexpr int kStep = 0;
constexpr int kForwardOnly = 1;

/// By the names of the stored parameters. As rank 0 of tp stores them: it owns
/// rows of everything, where others may hold padding alone, and all of them
/// must freeze alike.
std::map<std::string, ParameterSetting> settings_by_name(
    const RunConfig& config, const ModelPart& part) {
  std::map<std::string, ParameterSetting> settings;
  for (const ParameterLayout& layout :
       parameter_layouts(config.model, part, config.parallel.tp, 0)) {
    settings[layout.name] = parameter_setting(config.optimizer, layout);
  }
  return settings;
}

/// Unset: gradients travel as they are.
std::optional<at::ScalarType> sent_as(ReduceDtype dtype) {
  switch (dtype) {
    case ReduceDtype::kGradients:
      return std::nullopt;
    case ReduceDtype::kBf16:
      return at::kBFloat16;
    case ReduceDtype::kFp16:
      return at::kHalf;
  }
  return std::nullopt;
}

}  // namespace

TrainedParameters::TrainedParameters(const RunConfig& config,
                                     DeviceMesh& mesh,
                                     RankModel& rank_model,
                                     Break broken)
    : config_(config),
      mesh_(mesh),
      rank_model_(rank_model),
      broken_(broken),
      partial_(config.model,
               mesh.group(Axis::kTp),
               config.parallel.sequence_parallel),
      groups_(mesh.group(Axis::kDp), num_shards(config.parallel)) {
  check_parameter_groups(
      config_.optimizer,
      whole_model_layouts(config_.model, config_.parallel.tp));
  lay_out();
  draw();
  make_gradients();
  make_optimizer_slices();
  watch_parts();
}

void TrainedParameters::lay_out() {
  const auto settings = settings_by_name(config_, rank_model_.part);
  std::vector<ParameterLayout> layouts;
  // Backward finishes the last layers first: lay them out in that order.
  const auto& slots = rank_model_.slots;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    if (settings.at((*slot)->layout.name).is_frozen) {
      frozen_.insert(*slot);
    } else {
      trained_.push_back(*slot);
      layouts.push_back((*slot)->layout);
    }
  }
  layout_ = flat_layout(config_, layouts);
  mine_ = slices_of_shard(layout_, groups_.shard());
  offloaded_ = make_offloaded_shard(
      config_, layout_, "rank " + std::to_string(mesh_.rank()));
  if (splits_parameters(config_.parallel)) {
    lay_out_units();
  }
}

void TrainedParameters::lay_out_units() {
  const std::vector<ParameterSlot*> slots(rank_model_.slots.rbegin(),
                                          rank_model_.slots.rend());
  std::vector<ParameterLayout> layouts;
  std::vector<bool> is_trained;
  for (const ParameterSlot* slot : slots) {
    layouts.push_back(slot->layout);
    is_trained.push_back(!frozen_.contains(slot));
  }
  std::vector<int> order;
  UnitLayout units = unit_layout(config_, layouts, is_trained, &order);
  for (const int index : order) {
    if (is_trained[index]) {
      number_.push_back(static_cast<int>(sharded_slots_.size()));
    }
    sharded_slots_.push_back(slots[index]);
  }
  std::vector<PartPlace> places;
  if (has_parameters_on_file()) {
    places = offloaded_->parameter_places(
        units, [&](int parameter) { return is_trained[order[parameter]]; });
  }
  sharded_ = std::make_unique<ShardedParameters>(
      std::move(units),
      to_scalar_type(parameter_dtype(config_.training.precision)),
      *groups_.shards(),
      ShardedParametersOptions{
          .prefetch = config_.parallel.prefetch,
          .reshard_after_forward = config_.parallel.reshard_after_forward},
      std::move(places));
}

void TrainedParameters::draw() {
  draw_parameters(config_,
                  rank_model_,
                  broken_,
                  [this](const std::vector<ParameterSlot*>& slots) {
                    for (ParameterSlot* slot : slots) {
                      slot->tensor.requires_grad_(!frozen_.contains(slot));
                    }
                    if (sharded_) {
                      shard_unit(slots);
                    }
                  });
  if (broken_ == Break::kSwapLayers || broken_ == Break::kSwapHeads) {
    // Into the shards, of which the optimizer's masters are made.
    gather_parameters();
    break_weights(config_, mesh_, rank_model_, broken_);
    release_parameters();
  }
  if (broken_ == Break::kStaleUnit && !number_.empty()) {
    hold_unit_of(number_.front());
  }
}

void TrainedParameters::hold_unit_of(int parameter) {
  const std::vector<ParameterUnit>& units = sharded_->layout().units;
  for (size_t u = 0; u < units.size(); ++u) {
    const std::vector<int>& held = units[u].parameters;
    if (std::find(held.begin(), held.end(), parameter) != held.end()) {
      sharded_->hold(static_cast<int>(u));
    }
  }
}

void TrainedParameters::shard_unit(const std::vector<ParameterSlot*>& slots) {
  const std::vector<ParameterUnit>& units = sharded_->layout().units;
  for (size_t u = 0; u < units.size(); ++u) {
    const ParameterUnit& unit = units[u];
    if (unit.name == unit_of_parameter(slots.front()->layout.name)) {
      std::vector<at::Tensor> parameters;
      for (const int parameter : unit.parameters) {
        parameters.push_back(sharded_slots_[parameter]->tensor);
      }
      sharded_->add(static_cast<int>(u), parameters);
    }
  }
}

void TrainedParameters::make_gradients() {
  std::vector<at::Tensor> parameters;
  for (const ParameterSlot* slot : trained_) {
    parameters.push_back(slot->tensor);
  }
  if (groups_.shards() != nullptr && !sharded_) {
    const MemoryScope memory(MemoryCategory::kParameters);
    parameters_ = std::make_unique<FlatParameters>(parameters, layout_);
  }
  const MemoryScope memory(MemoryCategory::kGradients);
  gradients_ = make_replica_gradients(
      config_.parallel.zero,
      std::move(parameters),
      layout_,
      groups_,
      sent_as(config_.parallel.reduce_dtype),
      offloaded_ ? offloaded_->gradients() : GradientFile{});
}

void TrainedParameters::make_optimizer_slices() {
  RunConfig config = config_;
  if (broken_ == Break::kIgnoreGroups) {
    config.optimizer.group.clear();
  }
  const auto settings = settings_by_name(config, rank_model_.part);
  std::vector<OptimizedTensor> optimized;
  std::vector<ShardSlice> slices;
  for (const ShardSlice& slice : mine_) {
    const ParameterSlot& slot = slot_of(slice);
    const ParameterSetting& setting = settings.at(slot.layout.name);
    if (broken_ != Break::kShardNotUpdated || groups_.shard() == 0) {
      slices.push_back(slice);
      optimized.push_back(
          {.parameter =
               has_parameters_on_file() ? at::Tensor() : owned_parameter(slice),
           .gradient = has_gradients_on_file() ? at::Tensor()
                                               : gradients_->owned(slice),
           .lr_scale = setting.lr_scale,
           .weight_decay = setting.weight_decay});
    }
  }
  const MemoryScope memory(MemoryCategory::kOptimizer);
  const OffloadedOptimizer on_file =
      offloaded_ ? offloaded_->optimizer(slices) : OffloadedOptimizer{};
  optimizer_ = make_optimizer(
      config_.optimizer, std::move(optimized), offloaded_ ? &on_file : nullptr);
}

at::Tensor TrainedParameters::owned_parameter(const ShardSlice& slice) const {
  if (sharded_) {
    return sharded_->owned(number_[slice.parameter], slice.elements);
  }
  return slot_of(slice).tensor.detach().view({-1}).narrow(
      0, slice.elements.start, slice.elements.length);
}

void TrainedParameters::watch_parts() {
  if (mesh_.dims().dp > 1 && !has_split_gradients()) {
    num_parts_ = mesh_.dims().dp * (gradients_->reduces_each_microbatch()
                                        ? config_.num_microbatches()
                                        : 1);
    gradients_->before_reduce = [this](int index) {
      const Bucket& bucket = layout_.buckets[index];
      const at::Tensor own = gradients_->own(index);
      for (const int parameter : bucket.parameters) {
        const ParameterLayout& layout = trained_[parameter]->layout;
        const Range& range = layout_.parameters[parameter];
        add_owned_squares(
            part_squares_,
            own.narrow(0, range.start - bucket.range.start, range.length),
            {0, range.length},
            layout);
      }
    };
  }
  if (broken_ == Break::kSkipReplicaReduction && mesh_.coord().dp > 0) {
    gradients_->before_reduce = [this](int bucket) {
      if (bucket == 0) {
        gradients_->own(bucket).zero_();
      }
    };
  }
}

void TrainedParameters::begin_step() {
  if (sharded_) {
    sharded_->begin_pass(kStep);
  }
  gradients_->zero();
  part_squares_ = {};
}

void TrainedParameters::before_backward(int microbatch, bool is_last) {
  if (broken_ == Break::kRescaleRunningSum && microbatch > 0) {
    gradients_->multiply(0.5);
  }
  if (broken_ == Break::kLastMicrobatchOnly) {
    gradients_->zero();
  }
  if (sharded_ && is_last) {
    sharded_->begin_last_backward();
  }
  gradients_->before_backward(is_last);
}

void TrainedParameters::sum() {
  if (sharded_) {
    sharded_->end_pass();
    sharded_->rethrow_failure();
  }
  gradients_->finish();
  sum_partial();
  if (broken_ != Break::kUntie) {
    sum_tied();
  }
}

void TrainedParameters::sum_partial() {
  const auto is_summed = [&](const ShardSlice& slice) {
    const ParameterLayout& layout = slot_of(slice).layout;
    const bool is_skipped = layout.is_gradient_partial
                                ? broken_ == Break::kSkipKvSum
                                : broken_ == Break::kSkipSequenceSum;
    return !is_skipped && partial_.is_partial(layout);
  };
  std::vector<ShardSlice> slices;
  std::copy_if(
      mine_.begin(), mine_.end(), std::back_inserter(slices), is_summed);
  gradients_->visit_owned(
      slices,
      /*is_written=*/true,
      [&](size_t i, const Range& elements, const at::Tensor& values) {
        partial_.sum(values, elements, slot_of(slices[i]).layout);
      });
}

void TrainedParameters::sum_tied() {
  // Both stages cut a tied weight alike: its bucket holds nothing else.
  std::vector<ShardSlice> slices;
  std::copy_if(mine_.begin(),
               mine_.end(),
               std::back_inserter(slices),
               [&](const ShardSlice& slice) {
                 return is_tied_across_stages(config_, slot_of(slice).layout);
               });
  gradients_->visit_owned(slices,
                          /*is_written=*/true,
                          [&](size_t, const Range&, const at::Tensor& values) {
                            all_reduce(*mesh_.tied_stages(), values);
                          });
}

bool TrainedParameters::is_tied_copy(const ParameterSlot& slot) const {
  return is_tied_across_stages(config_, slot.layout) && !mesh_.is_first_stage();
}

ExactSum TrainedParameters::owned_squares() const {
  ExactSum sum;
  gradients_->visit_owned(
      mine_,
      /*is_written=*/false,
      [&](size_t i, const Range& elements, const at::Tensor& values) {
        const ParameterSlot& slot = slot_of(mine_[i]);
        if (!is_tied_copy(slot)) {
          add_owned_squares(sum, values, elements, slot.layout);
        }
      });
  return sum;
}

bool TrainedParameters::has_finite_gradients() const {
  bool is_finite = true;
  gradients_->visit_owned(mine_,
                          /*is_written=*/false,
                          [&](size_t, const Range&, const at::Tensor& values) {
                            // Squares of fp32 numbers stay finite in fp64.
                            is_finite = is_finite &&
                                        std::isfinite(sum_of_squares(values));
                          });
  return is_finite;
}

std::map<std::string, at::Tensor> TrainedParameters::gather_masters() const {
  TRIAX_CHECK(has_master_weights(config_.training.precision), "no masters");
  const at::ScalarType dtype =
      to_scalar_type(master_dtype(config_.training.precision));
  std::map<std::string, at::Tensor> masters;
  for (const ParameterSlot* slot : rank_model_.slots) {
    if (!slot->tensor.requires_grad()) {
      masters[slot->layout.name] = slot->tensor.detach().to(dtype);
    }
  }
  // Each element has one owner: the others add nothing.
  std::vector<at::Tensor> flat;
  for (const ParameterSlot* slot : trained_) {
    flat.push_back(at::zeros({slot->layout.numel()}, dtype));
    masters[slot->layout.name] = flat.back().view(slot->layout.shape);
  }
  const auto part_of = [&](size_t slice, int64_t start, int64_t length) {
    const ShardSlice& mine = mine_[slice];
    return flat[mine.parameter].narrow(0, mine.elements.start + start, length);
  };
  // A break leaves some ranks without an optimizer.
  if (optimizer_->tensors().empty()) {
    for (size_t i = 0; i < mine_.size(); ++i) {
      const Range& elements = mine_[i].elements;
      part_of(i, 0, elements.length)
          .copy_(slot_of(mine_[i]).tensor.detach().view({-1}).narrow(
              0, elements.start, elements.length));
    }
  }
  optimizer_->visit_states(/*is_written=*/false, [&](const auto& state) {
    if (state.name == "master") {
      part_of(state.index, state.start, state.tensor.numel())
          .copy_(state.tensor);
    }
  });
  if (Group* shards = groups_.shards()) {
    for (const at::Tensor& whole : flat) {
      all_reduce(*shards, whole);
    }
  }
  return masters;
}

void TrainedParameters::update(double lr, double gradient_scale) {
  optimizer_->step(lr, gradient_scale);
  if (parameters_) {
    const bool is_stale = broken_ == Break::kStaleParameterShard;
    parameters_->gather(*groups_.shards(), is_stale ? 1 : 0);
  }
}

bool TrainedParameters::has_split_gradients() const {
  return (config_.model.tie_word_embeddings && mesh_.dims().pp > 1) ||
         config_.model.num_key_value_heads < mesh_.dims().tp ||
         config_.sequence_shares() > 1;
}

void TrainedParameters::begin_forward_pass() {
  if (sharded_) {
    sharded_->begin_pass(kForwardOnly);
  }
}

void TrainedParameters::end_forward_pass() {
  if (sharded_) {
    sharded_->end_pass();
    sharded_->rethrow_failure();
  }
}

void TrainedParameters::gather_parameters() {
  if (sharded_) {
    sharded_->gather_all();
  }
}

void TrainedParameters::release_parameters() {
  if (sharded_) {
    sharded_->release_all();
  }
}

void TrainedParameters::rethrow_failure() {
  if (sharded_) {
    sharded_->rethrow_failure();
  }
}

int64_t TrainedParameters::most_gathered_bytes() const {
  return sharded_ ? sharded_->most_gathered_bytes() : 0;
}

int64_t TrainedParameters::parameter_bytes() const {
  if (sharded_) {
    return sharded_->nbytes();
  }
  int64_t nbytes = parameters_ ? parameters_->nbytes() : 0;
  for (const ParameterSlot* slot : rank_model_.slots) {
    if (!parameters_ || frozen_.contains(slot)) {
      nbytes += static_cast<int64_t>(slot->tensor.nbytes());
    }
  }
  return nbytes;
}

}  // namespace triax
