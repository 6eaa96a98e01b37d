// SPDX-License-Identifier: Apache-2.0
#include "triax/train/trained_parameters.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "triax/data_parallel/grad_norm.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/optim/parameter_groups.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

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
                                     const RankModel& rank_model,
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
  make_gradients();
  make_optimizer_slices();
  watch_parts();
}

void TrainedParameters::make_gradients() {
  const auto settings = settings_by_name(config_, rank_model_.part);
  std::vector<at::Tensor> parameters;
  std::vector<ParameterLayout> layouts;
  // Backward finishes the last layers first: lay them out in that order.
  const auto& slots = rank_model_.slots;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    const bool is_frozen = settings.at((*slot)->layout.name).is_frozen;
    (*slot)->tensor.requires_grad_(!is_frozen);
    if (!is_frozen) {
      trained_.push_back(*slot);
      parameters.push_back((*slot)->tensor);
      layouts.push_back((*slot)->layout);
    }
  }
  layout_ = flat_layout(config_, layouts);
  mine_ = slices_of_shard(layout_, groups_.shard());
  if (groups_.shards() != nullptr) {
    const MemoryScope memory(MemoryCategory::kParameters);
    parameters_ = std::make_unique<FlatParameters>(parameters, layout_);
  }
  const MemoryScope memory(MemoryCategory::kGradients);
  gradients_ = make_replica_gradients(config_.parallel.zero,
                                      std::move(parameters),
                                      layout_,
                                      groups_,
                                      sent_as(config_.parallel.reduce_dtype));
}

void TrainedParameters::make_optimizer_slices() {
  RunConfig config = config_;
  if (broken_ == Break::kIgnoreGroups) {
    config.optimizer.group.clear();
  }
  const auto settings = settings_by_name(config, rank_model_.part);
  std::vector<OptimizedTensor> optimized;
  for (const ShardSlice& slice : mine_) {
    const ParameterSlot& slot = slot_of(slice);
    const ParameterSetting& setting = settings.at(slot.layout.name);
    if (broken_ != Break::kShardNotUpdated || groups_.shard() == 0) {
      optimized.push_back({.parameter = owned_parameter(slice),
                           .gradient = gradients_->owned(slice),
                           .lr_scale = setting.lr_scale,
                           .weight_decay = setting.weight_decay});
    }
  }
  const MemoryScope memory(MemoryCategory::kOptimizer);
  optimizer_ = make_optimizer(config_.optimizer, std::move(optimized));
}

at::Tensor TrainedParameters::owned_parameter(const ShardSlice& slice) const {
  return slot_of(slice).tensor.detach().view({-1}).narrow(
      0, slice.elements.start, slice.elements.length);
}

void TrainedParameters::watch_parts() {
  if (mesh_.dims().dp > 1 && !has_split_gradients()) {
    const bool is_by_microbatch = splits_gradients(config_.parallel);
    num_parts_ =
        mesh_.dims().dp * (is_by_microbatch ? config_.num_microbatches() : 1);
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
  gradients_->before_backward(is_last);
}

void TrainedParameters::sum() {
  gradients_->finish();
  for (const ShardSlice& slice : mine_) {
    const ParameterLayout& layout = slot_of(slice).layout;
    const bool is_skipped = layout.is_gradient_partial
                                ? broken_ == Break::kSkipKvSum
                                : broken_ == Break::kSkipSequenceSum;
    if (!is_skipped) {
      partial_.sum(gradients_->owned(slice), slice.elements, layout);
    }
  }
  if (broken_ != Break::kUntie) {
    sum_tied();
  }
}

void TrainedParameters::sum_tied() {
  // Both stages cut a tied weight alike: its bucket holds nothing else.
  for (const ShardSlice& slice : mine_) {
    if (is_tied_across_stages(config_, slot_of(slice).layout)) {
      all_reduce(*mesh_.tied_stages(), gradients_->owned(slice));
    }
  }
}

bool TrainedParameters::is_tied_copy(const ParameterSlot& slot) const {
  return is_tied_across_stages(config_, slot.layout) && !mesh_.is_first_stage();
}

ExactSum TrainedParameters::owned_squares() const {
  ExactSum sum;
  for (const ShardSlice& slice : mine_) {
    const ParameterSlot& slot = slot_of(slice);
    if (!is_tied_copy(slot)) {
      add_owned_squares(
          sum, gradients_->owned(slice), slice.elements, slot.layout);
    }
  }
  return sum;
}

bool TrainedParameters::has_finite_gradients() const {
  // Squares of fp32 numbers stay finite in fp64.
  return std::all_of(mine_.begin(), mine_.end(), [this](const auto& slice) {
    return std::isfinite(sum_of_squares(gradients_->owned(slice)));
  });
}

at::Tensor TrainedParameters::owned_master(size_t slice) const {
  // A break leaves some ranks without an optimizer.
  return optimizer_->tensors().empty()
             ? owned_parameter(mine_[slice])
             : optimizer_->master(static_cast<int64_t>(slice));
}

std::map<std::string, at::Tensor> TrainedParameters::gather_masters() const {
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
  for (size_t i = 0; i < mine_.size(); ++i) {
    const Range& elements = mine_[i].elements;
    flat[mine_[i].parameter]
        .narrow(0, elements.start, elements.length)
        .copy_(owned_master(i));
  }
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

int64_t TrainedParameters::parameter_bytes() const {
  if (parameters_) {
    return parameters_->nbytes();
  }
  int64_t nbytes = 0;
  for (const ParameterSlot* slot : trained_) {
    nbytes += static_cast<int64_t>(slot->tensor.nbytes());
  }
  return nbytes;
}

}  // namespace triax
