// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

bool contains(std::span<const int> list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

ShardedParameters::ShardedParameters(UnitLayout layout,
                                     at::ScalarType dtype,
                                     Group& shards,
                                     const ShardedParametersOptions& options,
                                     std::vector<PartPlace> places)
    : layout_(std::move(layout)),
      shards_(shards),
      options_(options),
      dtype_(dtype),
      element_bytes_(static_cast<int64_t>(c10::elementSize(dtype))) {
  TRIAX_CHECK(layout_.flat.num_shards == shards.size(),
              layout_.flat.num_shards,
              " shards of ",
              shards.size(),
              " ranks");
  if (!places.empty()) {
    on_file_ =
        std::make_unique<SpilledParameters>(std::move(places), layout_.flat);
  } else {
    const MemoryScope memory(MemoryCategory::kParameters);
    shard_ = at::zeros({layout_.flat.shard_numel()}, dtype);
  }
  for (size_t u = 0; u < layout_.units.size(); ++u) {
    units_.emplace_back(
        RefillableStorage(layout_.units[u].range.length * element_bytes_,
                          why_not(static_cast<int>(u))));
  }
  watch_ = std::make_unique<StorageWatch>(
      [this](std::span<const int> units) { before_operation(units); },
      [this](std::span<const int> units) { after_operation(units); });
}

ShardedParameters::~ShardedParameters() {
  watch_.reset();
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u].works.clear();  // waits
    units_[u].storage.free("the parameters of " + layout_.units[u].name +
                           " are gone with what split them over ranks (zero "
                           "3); call its unshard() before it ends");
  }
}

std::string ShardedParameters::why_not(int unit) const {
  return "the parameters of " + layout_.units[unit].name + " are split over " +
         std::to_string(shards_.size()) +
         " ranks (zero 3) and not gathered: use them in operations, or within "
         "gather_all() and release_all()";
}

void ShardedParameters::add(int index,
                            const std::vector<at::Tensor>& parameters) {
  const ParameterUnit& layout = layout_.units.at(index);
  Unit& unit = units_[index];
  TRIAX_CHECK(unit.parameters.empty(), layout.name, " is added twice");
  TRIAX_CHECK(parameters.size() == layout.parameters.size(),
              parameters.size(),
              " parameters of ",
              layout.name);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    TRIAX_CHECK(parameters[i].scalar_type() == dtype_ &&
                    parameters[i].numel() ==
                        layout_.flat.parameters[layout.parameters[i]].length,
                "parameter ",
                i,
                " of ",
                layout.name,
                " is not the layout's");
  }
  keep_values(index, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Range& place = layout_.flat.parameters[layout.parameters[i]];
    parameters[i].set_data(unit.storage.tensor(
        dtype_, place.start - layout.range.start, parameters[i].sizes()));
  }
  unit.parameters = parameters;
  if (!parameters.empty()) {
    watch_->add(parameters.front(), index);
  }
}

/// This rank's shard of them.
void ShardedParameters::keep_values(int index,
                                    const std::vector<at::Tensor>& parameters) {
  const ParameterUnit& layout = layout_.units[index];
  for (const int b : layout.buckets) {
    const Bucket& bucket = layout_.flat.buckets[b];
    const Range mine = shard_of(layout_.flat, bucket, shards_.rank());
    const at::Tensor part =
        on_file_ ? at::zeros({mine.length}, dtype_) : part_of_shard(b);
    for (const int parameter : bucket.parameters) {
      const Range& whole = layout_.flat.parameters[parameter];
      const Range shared = intersection(whole, mine);
      if (shared.length > 0) {
        part.narrow(0, shared.start - mine.start, shared.length)
            .copy_(parameters[parameter - layout.parameters.front()]
                       .detach()
                       .reshape({-1})
                       .narrow(0, shared.start - whole.start, shared.length));
      }
    }
    if (on_file_) {
      on_file_->write(b, part);
    }
  }
}

at::Tensor ShardedParameters::owned(int parameter,
                                    const Range& elements) const {
  TRIAX_CHECK(!on_file_, "the shard lies on file");
  if (elements.length == 0) {
    return shard_.narrow(0, 0, 0);
  }
  const Range mine = owned_elements(layout_.flat, parameter, shards_.rank());
  TRIAX_CHECK(elements.start >= mine.start &&
                  elements.start + elements.length <= mine.start + mine.length,
              "elements from ",
              elements.start,
              " on are another rank's");
  const Bucket& bucket =
      layout_.flat.buckets[bucket_of(layout_.flat, parameter)];
  const Range part = shard_of(layout_.flat, bucket, shards_.rank());
  const int64_t in_flat =
      layout_.flat.parameters[parameter].start + elements.start;
  return shard_.narrow(
      0,
      start_in_shard(layout_.flat, bucket) + in_flat - part.start,
      elements.length);
}

at::Tensor ShardedParameters::part_of_shard(int bucket) const {
  const Bucket& whole = layout_.flat.buckets[bucket];
  return shard_.narrow(0,
                       start_in_shard(layout_.flat, whole),
                       whole.range.length / layout_.flat.num_shards);
}

void ShardedParameters::begin_pass(int kind) {
  const std::lock_guard lock(mutex_);
  TRIAX_CHECK(!is_pass_, "the last pass was not ended");
  give_back_unused({});  // what was used between two passes
  spare_.clear();
  previous_.clear();
  order_.begin_pass(kind);
  is_pass_ = true;
  is_last_backward_ = false;
  for (const int unit : order_.upcoming({}, options_.prefetch)) {
    start_gathering(unit);
  }
  read_ahead({});
}

void ShardedParameters::begin_last_backward() {
  const std::lock_guard lock(mutex_);
  is_last_backward_ = true;
}

void ShardedParameters::end_pass() {
  const std::lock_guard lock(mutex_);
  TRIAX_CHECK(is_pass_, "end_pass() without begin_pass()");
  is_pass_ = false;
  give_back_unused({});
  spare_.clear();
  if (on_file_) {
    on_file_->forget();
  }
  order_.end_pass(shards_, [&](int unit) { return layout_.units[unit].name; });
  previous_.clear();
}

void ShardedParameters::before_operation(std::span<const int> units) {
  const std::lock_guard lock(mutex_);
  if (units.size() > 1) {
    for (const int unit : units) {
      ++units_[unit].num_users;
    }
  }
  const bool is_same = std::equal(
      units.begin(), units.end(), previous_.begin(), previous_.end());
  const bool is_there = std::all_of(units.begin(), units.end(), [&](int unit) {
    return units_[unit].storage.is_filled() && units_[unit].works.empty();
  });
  if (is_same && is_there) {
    return;
  }
  if (is_pass_) {
    for (const int unit : units) {
      order_.note_use(unit);
    }
  }
  std::vector<int> wanted(units.begin(), units.end());
  const std::vector<int> next = order_.upcoming(units, options_.prefetch);
  wanted.insert(wanted.end(), next.begin(), next.end());
  give_back_unused(wanted);
  for (const int unit : wanted) {
    start_gathering(unit);
  }
  spare_.clear();
  read_ahead(units);
  for (const int unit : units) {
    finish_gathering(unit);
  }
  previous_.assign(units.begin(), units.end());
}

void ShardedParameters::after_operation(std::span<const int> units) {
  const std::lock_guard lock(mutex_);
  if (units.size() > 1) {
    for (const int unit : units) {
      --units_[unit].num_users;
    }
  }
}

void ShardedParameters::give_back_unused(const std::vector<int>& wanted) {
  const bool keeps = is_pass_ && !options_.reshard_after_forward;
  for (size_t u = 0; u < units_.size(); ++u) {
    const int index = static_cast<int>(u);
    const bool is_left =
        !keeps || (is_last_backward_ && contains(previous_, index));
    if (is_left && !contains(wanted, index) && !units_[u].is_held &&
        units_[u].num_users == 0) {
      give_back(index);
    }
  }
}

/// What is gathered next but one is on its way from the disk by then.
void ShardedParameters::read_ahead(std::span<const int> units) {
  if (!on_file_) {
    return;
  }
  for (const int unit : order_.upcoming(units, options_.prefetch + 1)) {
    if (!units_[unit].storage.is_filled()) {
      for (const int bucket : layout_.units[unit].buckets) {
        on_file_->expect(bucket);
      }
    }
  }
}

void ShardedParameters::start_gathering(int index) {
  Unit& unit = units_[index];
  if (unit.storage.is_filled()) {
    return;
  }
  try {
    {
      const MemoryScope memory(MemoryCategory::kParameters);
      const auto spare = spare_.find(unit.storage.nbytes());
      if (spare == spare_.end()) {
        spare_.clear();  // never more than what was given back
        unit.storage.fill();
      } else {
        unit.storage.fill(std::move(spare->second));
        spare_.erase(spare);
      }
    }
    gathered_bytes_ += unit.storage.nbytes();
    most_gathered_bytes_ = std::max(most_gathered_bytes_, gathered_bytes_);
    const ParameterUnit& layout = layout_.units[index];
    for (const int b : layout.buckets) {
      const Range& range = layout_.flat.buckets[b].range;
      const Buffer whole = {
          unit.storage.data() +
              (range.start - layout.range.start) * element_bytes_,
          range.length,
          to_dtype(dtype_)};
      const at::Tensor mine = on_file_ ? on_file_->take(b) : part_of_shard(b);
      if (on_file_) {
        unit.parts.push_back(mine);
      }
      unit.works.push_back(shards_.all_gather_async(as_buffer(mine), whole));
    }
  } catch (const std::exception& error) {
    stop_gathering(unit, error.what());
    throw;
  }
}

void ShardedParameters::finish_gathering(int index) {
  Unit& unit = units_[index];
  if (unit.works.empty()) {
    return;
  }
  try {
    for (Work& work : unit.works) {
      work.wait();
    }
    unit.works.clear();
    unit.parts.clear();
  } catch (const std::exception& error) {
    stop_gathering(unit, error.what());
    throw;
  }
  unit.version = version_of(unit);
}

/// Who uses it is told why it is not there.
void ShardedParameters::stop_gathering(Unit& unit, const char* why) {
  unit.works.clear();
  unit.parts.clear();
  if (unit.storage.is_filled()) {
    gathered_bytes_ -= unit.storage.nbytes();
  }
  unit.storage.free(why);
}

int64_t ShardedParameters::version_of(const Unit& unit) const {
  int64_t sum = 0;
  for (const at::Tensor& parameter : unit.parameters) {
    sum += parameter.unsafeGetTensorImpl()->version_counter().current_version();
  }
  return sum;
}

void ShardedParameters::give_back(int index) {
  Unit& unit = units_[index];
  if (!unit.storage.is_filled()) {
    return;
  }
  const bool is_whole = unit.works.empty();
  unit.works.clear();  // waits
  unit.parts.clear();
  if (is_whole && version_of(unit) != unit.version) {
    keep_own(index);
  }
  gathered_bytes_ -= unit.storage.nbytes();
  spare_.emplace(unit.storage.nbytes(), unit.storage.take(why_not(index)));
}

/// Operations wrote into the parameters: each rank keeps its part.
void ShardedParameters::keep_own(int index) {
  const ParameterUnit& layout = layout_.units[index];
  for (const int b : layout.buckets) {
    const Range mine =
        shard_of(layout_.flat, layout_.flat.buckets[b], shards_.rank());
    auto* const values = units_[index].storage.data() +
                         (mine.start - layout.range.start) * element_bytes_;
    const at::Tensor gathered = at::from_blob(values, {mine.length}, dtype_);
    if (on_file_) {
      on_file_->write(b, gathered);
    } else {
      part_of_shard(b).copy_(gathered);
    }
  }
}

void ShardedParameters::gather_all() {
  const std::lock_guard lock(mutex_);
  for (size_t u = 0; u < units_.size(); ++u) {
    start_gathering(static_cast<int>(u));
    finish_gathering(static_cast<int>(u));
    ++units_[u].num_users;
  }
}

void ShardedParameters::release_all(bool may_be_written) {
  const std::lock_guard lock(mutex_);
  for (size_t u = 0; u < units_.size(); ++u) {
    Unit& unit = units_[u];
    --unit.num_users;
    if (may_be_written && unit.storage.is_filled()) {
      keep_own(static_cast<int>(u));
      unit.version = version_of(unit);
    }
  }
  give_back_unused({});
  spare_.clear();
  previous_.clear();
}

void ShardedParameters::use(int unit) {
  before_operation({&unit, 1});
}

void ShardedParameters::hold(int unit) {
  const std::lock_guard lock(mutex_);
  start_gathering(unit);
  finish_gathering(unit);
  units_[unit].is_held = true;
}

void ShardedParameters::rethrow_failure() {
  if (const std::exception_ptr failure = watch_->take_failure()) {
    std::rethrow_exception(failure);
  }
}

int64_t ShardedParameters::nbytes() const {
  return on_file_ ? 0 : shard_.numel() * element_bytes_;
}

}  // namespace triax
