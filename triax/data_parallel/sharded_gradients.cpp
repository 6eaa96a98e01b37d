// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/sharded_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/data_parallel/gradient_hooks.h"
#include "triax/data_parallel/gradient_sums.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
ShardedGradients::ShardedGradients(std::vector<at::Tensor> parameters,
                                   FlatLayout layout,
                                   ReplicaGroups& groups,
                                   std::optional<at::ScalarType> sent_as,
                                   const GradientFile& file)
    : parameters_(std::move(parameters)),
      layout_(std::move(layout)),
      groups_(groups),
      sent_as_(sent_as),
      sends_copies_(sent_as && groups.shards() != nullptr),
      bucket_of_(parameters_.size()),
      open_(layout_.buckets.size()),
      is_late_(layout_.buckets.size()),
      self_(std::make_shared<ShardedGradients*>(this)) {
  if (file.arrays != nullptr) {
    on_file_ = std::make_unique<SpilledGradients>(file, layout_);
  } else {
    shard_ = at::zeros({layout_.shard_numel()}, gradient_options(parameters_));
  }
  widen_gradients(parameters_);
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    for (const int parameter : layout_.buckets[b].parameters) {
      bucket_of_[parameter] = static_cast<int>(b);
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const int parameter = static_cast<int>(i);
    const auto call = [self = self_, parameter](auto method) {
      return [self, parameter, method] {
        if (*self != nullptr) {
          ((*self)->*method)(parameter);
        }
      };
    };
    before_gradient(parameters_[i], call(&ShardedGradients::before_adding));
    after_gradient(parameters_[i], call(&ShardedGradients::after_adding));
  }
}

ShardedGradients::~ShardedGradients() {
  *self_ = nullptr;
}

void ShardedGradients::zero() {
  settle_all();
  abandon_open();
  if (on_file_) {
    on_file_->zero();
  } else {
    shard_.zero_();
  }
}

/// What a backward that threw had begun.
void ShardedGradients::abandon_open() {
  for (size_t b = 0; b < open_.size(); ++b) {
    if (open_[b].defined()) {
      unset_gradients(static_cast<int>(b));
      give_back(std::exchange(open_[b], at::Tensor()));
    }
  }
  is_late_.assign(is_late_.size(), false);
  is_running_ = false;
}

void ShardedGradients::multiply(double factor) {
  settle_all();
  visit_owned(slices_of_shard(layout_, groups_.shard()),
              /*is_written=*/true,
              [&](size_t, const Range&, const at::Tensor& values) {
                values.mul_(factor);
              });
}

void ShardedGradients::before_backward(bool /*is_last*/) {
  missing_.clear();
  for (const Bucket& bucket : layout_.buckets) {
    missing_.push_back(static_cast<int>(bucket.parameters.size()));
  }
  arrived_.assign(parameters_.size(), false);
  next_bucket_ = 0;
  is_running_ = true;
}

void ShardedGradients::after_backward() {
  TRIAX_CHECK(is_running_, "after_backward() without before_backward()");
  missing_.assign(layout_.buckets.size(), 0);
  start_ready();
  is_running_ = false;
}

void ShardedGradients::finish() {
  // Whether a bucket is left over must be known on every rank alike.
  if (max_over(groups_.dp(), has_late_gradients() ? 1.0 : 0.0) > 0.0) {
    for (size_t b = 0; b < layout_.buckets.size(); ++b) {
      start(static_cast<int>(b));
    }
  }
  settle_all();
  free_.clear();
  num_blocks_ = 0;
  if (groups_.replicas() != nullptr) {
    sum_over_replicas();
  }
  if (on_file_) {
    on_file_->settle();
  }
}

void ShardedGradients::sum_over_replicas() {
  GradientSums sums(sent_as_);
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    const int bucket = static_cast<int>(b);
    const at::Tensor part = part_of_shard(bucket);
    sums.all_reduce(*groups_.replicas(), part);
    if (on_file_) {
      sums.wait();
      on_file_->write(bucket, part);
    }
  }
  sums.wait();
}

bool ShardedGradients::has_late_gradients() const {
  return std::find(is_late_.begin(), is_late_.end(), true) != is_late_.end();
}

void ShardedGradients::before_adding(int parameter) {
  if (!is_running_) {
    throw Error(
        "a gradient of parameters that are split over ranks came outside of "
        "their own backward pass, which would lose it: call "
        "FullyShardedModule::backward(loss), not loss.backward()");
  }
  const int bucket = bucket_of_[parameter];
  if (!open_[bucket].defined()) {
    open(bucket);
    is_late_[bucket] = bucket < static_cast<int>(next_bucket_);
  }
}

void ShardedGradients::after_adding(int parameter) {
  const int bucket = bucket_of_[parameter];
  if (!open_[bucket].defined()) {
    // at::Tensor::register_hook() removes the hooks that were there before it,
    // so before_adding() was not called.
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = parameters_[parameter].grad();
    before_adding(parameter);
    parameters_[parameter].mutable_grad().add_(gradient);
  }
  const at::Tensor expected = view_in(open_[bucket],
                                      layout_.buckets[bucket].range.start,
                                      layout_.parameters[parameter],
                                      parameters_[parameter]);
  TRIAX_CHECK(parameters_[parameter].grad().data_ptr() == expected.data_ptr(),
              "a gradient left its bucket");
  if (!arrived_[parameter]) {
    arrived_[parameter] = true;
    --missing_[bucket];
    start_ready();
  }
}

void ShardedGradients::open(int bucket) {
  const at::Tensor block = take_block();
  in_bucket(block, bucket).zero_();
  open_[bucket] = block;
  set_gradients(bucket, block);
}

at::Tensor ShardedGradients::take_block() {
  while (free_.empty() && num_blocks_ >= kMaxGradientBlocks &&
         !reductions_.empty()) {
    settle_oldest();
  }
  if (free_.empty()) {
    ++num_blocks_;
    most_blocks_ = std::max(most_blocks_, num_blocks_);
    const MemoryScope memory(MemoryCategory::kGradients);
    return at::empty({layout_.largest_bucket()}, gradient_options(parameters_));
  }
  at::Tensor block = std::move(free_.back());
  free_.pop_back();
  return block;
}

void ShardedGradients::give_back(at::Tensor block) {
  if (num_blocks_ > kMaxGradientBlocks) {
    --num_blocks_;
  } else {
    free_.push_back(std::move(block));
  }
}

at::Tensor ShardedGradients::narrow_copy(const at::Tensor& block, int bucket) {
  while (reductions_.size() >= kMaxGradientBlocks) {
    settle_oldest();
  }
  most_copies_ =
      std::max(most_copies_, static_cast<int>(reductions_.size()) + 1);
  const MemoryScope memory(MemoryCategory::kCommunication);
  return in_bucket(block, bucket).to(*sent_as_);
}

void ShardedGradients::start_ready() {
  while (next_bucket_ < layout_.buckets.size() && missing_[next_bucket_] == 0) {
    const int bucket = static_cast<int>(next_bucket_++);
    start(bucket);
  }
}

void ShardedGradients::start(int bucket) {
  if (!open_[bucket].defined()) {
    open(bucket);  // this rank has no gradient of it, others may
  }
  if (before_reduce) {
    before_reduce(bucket);
  }
  unset_gradients(bucket);
  is_late_[bucket] = false;
  at::Tensor sent = std::exchange(open_[bucket], at::Tensor());
  if (sends_copies_) {
    const at::Tensor copy = narrow_copy(sent, bucket);
    give_back(std::exchange(sent, copy));
  }
  const at::Tensor whole = in_bucket(sent, bucket);
  const int64_t length = whole.numel() / layout_.num_shards;
  reductions_.push_back({bucket, sent, Work()});
  if (Group* shards = groups_.shards()) {
    reductions_.back().work = shards->reduce_scatter_async(
        as_buffer(whole),
        as_buffer(whole.narrow(0, groups_.shard() * length, length)));
  }
  if (on_file_) {
    on_file_->expect(bucket);
  }
}

void ShardedGradients::settle_oldest() {
  Reduction& oldest = reductions_.front();
  oldest.work.wait();
  const at::Tensor whole = in_bucket(oldest.sent, oldest.bucket);
  const int64_t length = whole.numel() / layout_.num_shards;
  add_to_shard(oldest.bucket,
               whole.narrow(0, groups_.shard() * length, length));
  if (!sends_copies_) {
    give_back(oldest.sent);
  }
  reductions_.pop_front();
}

void ShardedGradients::settle_all() {
  while (!reductions_.empty()) {
    settle_oldest();
  }
}

at::Tensor ShardedGradients::in_bucket(const at::Tensor& block,
                                       int bucket) const {
  return block.narrow(0, 0, layout_.buckets[bucket].range.length);
}

void ShardedGradients::add_to_shard(int bucket, const at::Tensor& sum) {
  if (on_file_) {
    on_file_->add(bucket, sum);
  } else {
    part_of_shard(bucket).add_(sum);
  }
}

at::Tensor ShardedGradients::part_of_shard(int bucket) const {
  if (on_file_) {
    return on_file_->read(bucket);
  }
  const Bucket& whole = layout_.buckets[bucket];
  return shard_.narrow(0,
                       start_in_shard(layout_, whole),
                       whole.range.length / layout_.num_shards);
}

at::Tensor ShardedGradients::owned(const ShardSlice& slice) const {
  TRIAX_CHECK(!on_file_, "the shard lies on file");
  return shard_.narrow(0, slice.offset, slice.elements.length);
}

void ShardedGradients::visit_owned(const std::vector<ShardSlice>& slices,
                                   bool is_written,
                                   const VisitOwned& body) {
  if (on_file_) {
    on_file_->visit(slices, is_written, body);
  } else {
    ReplicaGradients::visit_owned(slices, is_written, body);
  }
}

at::Tensor ShardedGradients::own(int bucket) const {
  TRIAX_CHECK(open_[bucket].defined(), "bucket ", bucket, " is not open");
  return in_bucket(open_[bucket], bucket);
}

void ShardedGradients::set_gradients(int bucket, const at::Tensor& block) {
  const Bucket& whole = layout_.buckets[bucket];
  for (const int parameter : whole.parameters) {
    parameters_[parameter].mutable_grad() =
        view_in(block,
                whole.range.start,
                layout_.parameters[parameter],
                parameters_[parameter]);
  }
}

void ShardedGradients::unset_gradients(int bucket) {
  for (const int parameter : layout_.buckets[bucket].parameters) {
    parameters_[parameter].mutable_grad() = at::Tensor();
  }
}

void ShardedGradients::gather() {
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    const int bucket = static_cast<int>(b);
    at::Tensor whole = part_of_shard(bucket);
    if (Group* shards = groups_.shards()) {
      const at::Tensor mine = whole;
      whole = at::empty({layout_.buckets[b].range.length}, mine.options());
      shards->all_gather(as_buffer(mine), as_buffer(whole));
    }
    set_gradients(bucket, whole);
  }
}

void ShardedGradients::release() {
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    unset_gradients(static_cast<int>(b));
  }
}

int64_t ShardedGradients::nbytes() const {
  return on_file_ ? 0 : shard_.numel() * shard_.element_size();
}

int64_t ShardedGradients::bucket_bytes() const {
  const auto size =
      static_cast<int64_t>(gradient_options(parameters_).dtype().itemsize());
  const auto copy_size =
      static_cast<int64_t>(sends_copies_ ? c10::elementSize(*sent_as_) : 0);
  return layout_.largest_bucket() *
             (most_blocks_ * size + most_copies_ * copy_size) +
         (on_file_ ? on_file_->most_bytes() : 0);
}

}  // namespace triax
