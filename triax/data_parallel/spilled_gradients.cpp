// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/spilled_gradients.h"

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/memory/io_buffer.h"
#include "triax/memory/tracker.h"

namespace triax {

SpilledGradients::SpilledGradients(const GradientFile& file, FlatLayout layout)
    : file_(file), layout_(std::move(layout)) {
  TRIAX_CHECK(file_.spill.buckets.size() == layout_.buckets.size(),
              file_.spill.buckets.size());
  is_zero_.assign(layout_.buckets.size(), true);
}

int64_t SpilledGradients::part_numel(int bucket) const {
  return layout_.buckets[bucket].range.length / layout_.num_shards;
}

at::Tensor SpilledGradients::values_in(const at::Tensor& memory,
                                       int bucket) const {
  return elements_of(memory, 0, part_numel(bucket), dtype());
}

at::Tensor SpilledGradients::take_memory(int bucket) {
  const MemoryScope memory(MemoryCategory::kGradients);
  const at::Tensor taken = make_io_buffer(
      file_.arrays->io_bytes(file_.array, file_.spill.buckets[bucket]));
  bytes_ += taken.numel();
  most_bytes_ = std::max(most_bytes_, bytes_);
  return taken;
}

void SpilledGradients::let_go(Transfer& transfer) {
  transfer.request.wait();
  bytes_ -= transfer.memory.numel();
}

void SpilledGradients::zero() {
  settle();
  is_zero_.assign(is_zero_.size(), true);
}

void SpilledGradients::wait_for_writes(int bucket) {
  const auto is_of = [&](const Transfer& write) {
    return write.bucket == bucket;
  };
  while (std::any_of(writes_.begin(), writes_.end(), is_of)) {
    let_go(writes_.front());
    writes_.pop_front();
  }
}

void SpilledGradients::expect(int bucket) {
  if (is_zero_[bucket] || reads_.contains(bucket)) {
    return;
  }
  wait_for_writes(bucket);
  Transfer read;
  read.bucket = bucket;
  read.memory = take_memory(bucket);
  read.request =
      file_.arrays->read(file_.array, file_.spill.buckets[bucket], read.memory);
  reads_.emplace(bucket, std::move(read));
}

void SpilledGradients::add(int bucket, const at::Tensor& part) {
  expect(bucket);
  Transfer sum;
  if (is_zero_[bucket]) {
    wait_for_writes(bucket);
    sum.memory = take_memory(bucket);
    sum.memory.zero_();
    is_zero_[bucket] = false;
  } else {
    auto read = reads_.extract(bucket);
    read.mapped().request.wait();
    sum.memory = read.mapped().memory;
  }
  sum.bucket = bucket;
  values_in(sum.memory, bucket).add_(part);
  while (writes_.size() >= kMaxGradientBlocks) {
    let_go(writes_.front());
    writes_.pop_front();
  }
  sum.request =
      file_.arrays->write(file_.array, file_.spill.buckets[bucket], sum.memory);
  writes_.push_back(std::move(sum));
}

void SpilledGradients::settle() {
  while (!writes_.empty()) {
    let_go(writes_.front());
    writes_.pop_front();
  }
  for (auto& [bucket, read] : reads_) {
    let_go(read);
  }
  reads_.clear();
}

at::Tensor SpilledGradients::read(int bucket) {
  settle();
  const MemoryScope memory(MemoryCategory::kGradients);
  const Range& place = file_.spill.buckets[bucket];
  const at::Tensor whole =
      make_io_buffer(file_.arrays->io_bytes(file_.array, place));
  if (is_zero_[bucket]) {
    whole.zero_();
  } else {
    file_.arrays->read(file_.array, place, whole).wait();
  }
  return values_in(whole, bucket);
}

void SpilledGradients::write(int bucket, const at::Tensor& part) {
  settle();
  const Range& place = file_.spill.buckets[bucket];
  const at::Tensor whole =
      make_io_buffer(file_.arrays->io_bytes(file_.array, place));
  whole.zero_();
  values_in(whole, bucket).copy_(part);
  file_.arrays->write(file_.array, place, whole).wait();
  is_zero_[bucket] = false;
}

void SpilledGradients::visit(const std::vector<ShardSlice>& slices,
                             bool is_written,
                             const VisitOwned& body) {
  settle();
  // What nothing was added to is still the last step's.
  for (size_t bucket = 0; bucket < is_zero_.size(); ++bucket) {
    if (is_zero_[bucket]) {
      write(static_cast<int>(bucket), read(static_cast<int>(bucket)));
    }
  }
  const MemoryScope memory(MemoryCategory::kGradients);
  size_t first = 0;
  while (first < slices.size()) {
    // Windows that begin with a bucket are alike on ranks that share it.
    size_t end = slices.size();
    while (is_written && slices[end - 1].bucket != slices[first].bucket) {
      --end;
    }
    const Range& from = file_.spill.buckets[slices[first].bucket];
    const Range& to = file_.spill.buckets[slices[end - 1].bucket];
    WindowPass pass = {
        .elements = {from.start, to.start + to.length - from.start},
        .reads = {file_.array},
        .writes = {}};
    if (is_written) {
      pass.writes = {file_.array};
    }
    file_.arrays->for_each_window(pass, [&](const ArrayWindow& window) {
      for (size_t i = first; i < end; ++i) {
        const Range place = spilled_place(file_.spill, layout_, slices[i]);
        const Range mine = intersection(place, window.elements);
        if (mine.length > 0) {
          body(i,
               {slices[i].elements.start + mine.start - place.start,
                mine.length},
               window.arrays[file_.array].narrow(
                   0, mine.start - window.elements.start, mine.length));
        }
      }
    });
    first = end;
  }
}

}  // namespace triax
