// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/fully_sharded_module.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "triax/base/error.h"
#include "triax/data_parallel/grad_norm.h"
#include "triax/data_parallel/module_units.h"
#include "triax/data_parallel/replica_gradients.h"
#include "triax/data_parallel/sharded_parameters.h"
#include "triax/memory/storage_watch.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

/// Of rank 0's tensor, whatever its type and strides.
void take_over(Group& group, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = tensor.detach().contiguous();
  const auto nbytes = static_cast<int64_t>(values.nbytes());
  const at::Tensor words = at::zeros({(nbytes + 7) / 8}, at::kLong);
  std::memcpy(words.data_ptr(), values.const_data_ptr(), values.nbytes());
  group.broadcast(as_buffer(words), 0);
  std::memcpy(values.data_ptr(), words.const_data_ptr(), values.nbytes());
  if (values.data_ptr() != tensor.data_ptr()) {
    tensor.detach().copy_(values);
  }
}

void check_parameter(const ModuleParameter& parameter) {
  const at::Tensor& tensor = parameter.tensor;
  if (tensor.has_storage() && StorageWatch::is_watched(tensor)) {
    throw Error("parameter ",
                parameter.path,
                " is split by another FullyShardedModule; unshard() that "
                "first");
  }
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    throw Error("parameter ",
                parameter.path,
                " has several elements in one place of memory (expand()): "
                "register its clone()");
  }
  if (!tensor.is_cpu()) {
    throw Error("parameter ",
                parameter.path,
                " is on ",
                tensor.device().str(),
                ": a FullyShardedModule is built for CPUs alone");
  }
  to_dtype(tensor.scalar_type());
  if (tensor.requires_grad() && tensor.scalar_type() != at::kFloat &&
      tensor.scalar_type() != at::kDouble) {
    throw Error("parameter ",
                parameter.path,
                " is ",
                c10::toString(tensor.scalar_type()),
                ": trained parameters of a FullyShardedModule are fp32 or "
                "fp64; keep the module in fp32 and use autocast");
  }
}

/// Such would be torn apart, each with memory and updates of its own.
void check_no_shared_memory(const std::vector<ModuleUnit>& units) {
  struct Extent {
    const std::byte* begin;
    const std::byte* end;
    const std::string* path;
  };
  std::vector<Extent> extents;
  for (const ModuleUnit& unit : units) {
    for (const ModuleParameter& parameter : unit.parameters) {
      const at::Tensor& tensor = parameter.tensor;
      if (tensor.numel() > 0) {
        const auto* const begin =
            static_cast<const std::byte*>(tensor.const_data_ptr());
        extents.push_back({begin, begin + tensor.nbytes(), &parameter.path});
      }
    }
  }
  std::sort(extents.begin(),
            extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) {
      throw Error("parameters ",
                  *extents[i - 1].path,
                  " and ",
                  *extents[i].path,
                  " share memory and are not one tensor: register one and the "
                  "same tensor, or clone() one of them");
    }
  }
}

/// As backward finishes them: the last ones first, but the root, which usually
/// has some at both ends, in the end. Frozen ones after the others.
std::vector<ModuleUnit> in_order_of_backward(std::vector<ModuleUnit> units) {
  const bool has_root = !units.empty() && units.back().name == kRootUnit;
  std::reverse(units.begin(), units.end() - (has_root ? 1 : 0));
  for (ModuleUnit& unit : units) {
    std::reverse(unit.parameters.begin(), unit.parameters.end());
    std::stable_partition(unit.parameters.begin(),
                          unit.parameters.end(),
                          [](const ModuleParameter& parameter) {
                            return parameter.tensor.requires_grad();
                          });
  }
  return units;
}

}  // namespace

/// In the layout's order.
struct FullyShardedModule::Part {
  Part(const std::vector<ModuleUnit>& units,
       at::ScalarType dtype,
       Group& group,
       const FullyShardedOptions& options);

  std::vector<std::string> paths;
  std::vector<at::Tensor> parameters;
  std::vector<int> trained;        // their indices
  std::vector<ShardSlice> slices;  // of the trained ones
  ReplicaGroups groups;
  std::unique_ptr<ShardedParameters> values;
  std::unique_ptr<ReplicaGradients> gradients;
  std::vector<const c10::StorageImpl*> storages;
};

FullyShardedModule::Part::Part(const std::vector<ModuleUnit>& units,
                               at::ScalarType dtype,
                               Group& group,
                               const FullyShardedOptions& options)
    : groups(group, group.size()) {
  std::vector<UnitParameter> laid_out;
  std::vector<at::Tensor> trained_parameters;
  for (const ModuleUnit& unit : units) {
    for (const ModuleParameter& parameter : unit.parameters) {
      const bool is_trained = parameter.tensor.requires_grad();
      if (is_trained) {
        trained.push_back(static_cast<int>(parameters.size()));
        trained_parameters.push_back(parameter.tensor);
      }
      paths.push_back(parameter.path);
      parameters.push_back(parameter.tensor);
      laid_out.push_back({.numel = parameter.tensor.numel(),
                          .unit = unit.name,
                          .is_trained = is_trained});
    }
  }
  values = std::make_unique<ShardedParameters>(
      make_unit_layout(laid_out, options.bucket_numel, group.size()),
      dtype,
      group,
      ShardedParametersOptions{.prefetch = options.prefetch});
  const std::vector<ParameterUnit>& made = values->layout().units;
  for (size_t u = 0; u < made.size(); ++u) {
    std::vector<at::Tensor> mine;
    for (const int index : made[u].parameters) {
      mine.push_back(parameters[index]);
    }
    values->add(static_cast<int>(u), mine);
  }
  const FlatLayout layout =
      trained_layout(laid_out, options.bucket_numel, group.size());
  slices = slices_of_shard(layout, groups.shard());
  const MemoryScope memory(MemoryCategory::kGradients);
  gradients =
      make_replica_gradients(3, std::move(trained_parameters), layout, groups);
  for (const at::Tensor& parameter : parameters) {
    storages.push_back(parameter.storage().unsafeGetStorageImpl());
  }
}

WholeParameters::WholeParameters(FullyShardedModule* module)
    : module_(module) {}

WholeParameters::WholeParameters(WholeParameters&& other) noexcept
    : module_(std::exchange(other.module_, nullptr)) {}

WholeParameters::~WholeParameters() {
  if (module_ != nullptr) {
    module_->release_all();
  }
}

FullyShardedModule::FullyShardedModule(torch::nn::Module& module,
                                       Group& group,
                                       FullyShardedOptions options)
    : group_(group) {
  if (options.prefetch < 0) {
    throw Error("prefetch is ", options.prefetch, "; use 0 or more units");
  }
  const std::vector<ModuleUnit> units =
      in_order_of_backward(units_of_module(module, options.units));
  for (const ModuleUnit& unit : units) {
    std::for_each(
        unit.parameters.begin(), unit.parameters.end(), check_parameter);
  }
  check_no_shared_memory(units);
  std::map<at::ScalarType, std::vector<ModuleUnit>> by_dtype;
  for (const ModuleUnit& unit : units) {
    for (const ModuleParameter& parameter : unit.parameters) {
      take_over(group_, parameter.tensor);
      auto& same = by_dtype[parameter.tensor.scalar_type()];
      if (same.empty() || same.back().name != unit.name) {
        same.push_back({unit.name, {}});
      }
      same.back().parameters.push_back(parameter);
    }
  }
  for (const at::Tensor& buffer : module.buffers()) {
    take_over(group_, buffer);
  }
  for (const auto& [dtype, same] : by_dtype) {
    parts_.push_back(std::make_unique<Part>(same, dtype, group_, options));
  }
  watch_casts();
  describe_units(units);
  begin_step();
}

FullyShardedModule::~FullyShardedModule() = default;

void FullyShardedModule::watch_casts() {
  std::vector<std::pair<ShardedParameters*, int>> units;
  std::vector<std::pair<at::Tensor, int>> keys;
  for (const auto& part : parts_) {
    const std::vector<ParameterUnit>& made = part->values->layout().units;
    for (size_t u = 0; u < made.size(); ++u) {
      for (const int index : made[u].parameters) {
        keys.emplace_back(part->parameters[index],
                          static_cast<int>(units.size()));
      }
      units.emplace_back(part->values.get(), static_cast<int>(u));
    }
  }
  casts_ = std::make_unique<CastCopies>([units = std::move(units)](int key) {
    units[key].first->use(units[key].second);
  });
  for (const auto& [parameter, key] : keys) {
    casts_->add(parameter, key);
  }
}

void FullyShardedModule::describe_units(const std::vector<ModuleUnit>& units) {
  for (const ModuleUnit& unit : units) {
    ShardedUnit described{unit.name, {}, 0};
    for (const ModuleParameter& parameter : unit.parameters) {
      described.parameters.push_back(parameter.path);
    }
    for (const auto& part : parts_) {
      for (const ParameterUnit& made : part->values->layout().units) {
        if (made.name == unit.name) {
          described.nbytes +=
              made.range.length *
              static_cast<int64_t>(part->parameters.front().element_size());
        }
      }
    }
    units_.push_back(std::move(described));
  }
}

std::vector<OptimizedTensor> FullyShardedModule::optimized(
    const std::function<void(const std::string& path, OptimizedTensor& tensor)>&
        set) const {
  check_usable();
  std::vector<OptimizedTensor> tensors;
  for (const auto& part : parts_) {
    for (const ShardSlice& slice : part->slices) {
      const int index = part->trained[slice.parameter];
      tensors.push_back(
          {.parameter = part->values->owned(index, slice.elements),
           .gradient = part->gradients->owned(slice)});
      if (set) {
        set(part->paths[index], tensors.back());
      }
    }
  }
  return tensors;
}

void FullyShardedModule::backward(const at::Tensor& loss) {
  check_usable();
  refuse_after_failure();
  rethrow_failure();
  for (const auto& part : parts_) {
    part->gradients->before_backward(/*is_last=*/true);
  }
  try {
    try {
      torch::autograd::backward({loss}, {});
    } catch (...) {
      rethrow_failure();  // it says more
      throw;
    }
    for (const auto& part : parts_) {
      part->gradients->after_backward();
    }
    rethrow_failure();
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw;
  }
}

void FullyShardedModule::refuse_after_failure() const {
  if (!failure_.empty()) {
    throw Error("a backward() of this step has thrown (",
                failure_,
                "), so that the ranks' gradients no longer belong together; "
                "make another FullyShardedModule");
  }
}

double FullyShardedModule::step(Optimizer& optimizer, const Update& update) {
  check_usable();
  refuse_after_failure();
  if (num_whole_ > 0) {
    throw Error(
        "step() while what gather_all() returned is alive: the update would be "
        "lost when that puts its parameters back; let it go out of scope "
        "first");
  }
  check_optimizer(optimizer);
  rethrow_failure();
  const double norm = finish_gradients();
  const bool is_finite = std::isfinite(norm);
  if (is_finite) {
    optimizer.step(update.lr, clip_factor(norm, update.max_norm));
    expire_graphs();
  }
  begin_step();
  if (!is_finite) {
    throw Error("the gradient norm is ",
                norm,
                "; weights and optimizer state are as before this step; lower "
                "the learning rate or set max_norm");
  }
  return norm;
}

/// As an update in place would, which autograd notices.
void FullyShardedModule::expire_graphs() {
  casts_->expire();
  for (const auto& part : parts_) {
    for (const int index : part->trained) {
      part->parameters[index].unsafeGetTensorImpl()->bump_version();
    }
  }
}

double FullyShardedModule::finish_gradients() {
  ExactSum squares;
  for (const auto& part : parts_) {
    part->values->end_pass();
    part->gradients->finish();
    for (const ShardSlice& slice : part->slices) {
      add_owned_squares(
          squares, part->gradients->owned(slice), slice.elements, {});
    }
  }
  sum_over(group_, {&squares, 1});
  return std::sqrt(squares.value());
}

void FullyShardedModule::begin_step() {
  for (const auto& part : parts_) {
    part->gradients->zero();
    part->values->begin_pass();
  }
}

WholeParameters FullyShardedModule::gather_all() {
  check_usable();
  rethrow_failure();
  for (const auto& part : parts_) {
    part->values->gather_all();
  }
  ++num_whole_;
  return WholeParameters(this);
}

void FullyShardedModule::release_all() {
  --num_whole_;
  for (const auto& part : parts_) {
    part->values->release_all(/*may_be_written=*/true);
  }
}

void FullyShardedModule::unshard() {
  {
    const WholeParameters whole = gather_all();
    const MemoryScope memory(MemoryCategory::kParameters);
    for (const auto& part : parts_) {
      for (const at::Tensor& parameter : part->parameters) {
        parameter.set_data(parameter.detach().clone());
      }
    }
  }
  casts_->expire();
  casts_.reset();
  parts_.clear();
  is_over_ = true;
}

void FullyShardedModule::check_usable() const {
  if (is_over_) {
    throw Error(
        "the module was given back by unshard(); make another "
        "FullyShardedModule of it");
  }
  for (const auto& part : parts_) {
    for (size_t i = 0; i < part->parameters.size(); ++i) {
      if (part->parameters[i].storage().unsafeGetStorageImpl() !=
          part->storages[i]) {
        throw Error("parameter ",
                    part->paths[i],
                    " got other memory than its FullyShardedModule gave it "
                    "(by to(), set_data() or a load); make such changes before "
                    "it is made, or write the values in place");
      }
    }
  }
}

void FullyShardedModule::check_optimizer(const Optimizer& optimizer) const {
  std::set<const void*> updated;
  for (const OptimizedTensor& tensor : optimizer.tensors()) {
    updated.insert(tensor.parameter.const_data_ptr());
  }
  for (const auto& part : parts_) {
    for (const ShardSlice& slice : part->slices) {
      const int index = part->trained[slice.parameter];
      const at::Tensor mine = part->values->owned(index, slice.elements);
      if (!updated.contains(mine.const_data_ptr())) {
        throw Error("the optimizer does not update ",
                    part->paths[index],
                    ": make it of all that optimized() returns");
      }
    }
  }
}

void FullyShardedModule::rethrow_failure() {
  for (const auto& part : parts_) {
    part->values->rethrow_failure();
  }
  casts_->rethrow_failure();
}

int64_t FullyShardedModule::shard_bytes() const {
  int64_t nbytes = 0;
  for (const auto& part : parts_) {
    nbytes += part->values->nbytes() + part->gradients->nbytes();
  }
  return nbytes;
}

int64_t FullyShardedModule::most_cast_bytes() const {
  return casts_ == nullptr ? 0 : casts_->most_bytes();
}

int64_t FullyShardedModule::most_gathered_bytes() const {
  int64_t nbytes = 0;
  for (const auto& part : parts_) {
    nbytes += part->values->most_gathered_bytes();
  }
  return nbytes;
}

}  // namespace triax
