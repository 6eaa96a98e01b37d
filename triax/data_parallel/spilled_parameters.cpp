// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/spilled_parameters.h"

#include <utility>

#include "triax/base/error.h"
#include "triax/memory/io_buffer.h"
#include "triax/memory/tracker.h"

namespace triax {

SpilledParameters::SpilledParameters(std::vector<PartPlace> places,
                                     const FlatLayout& layout)
    : places_(std::move(places)) {
  TRIAX_CHECK(places_.size() == layout.buckets.size(), places_.size());
  for (const Bucket& bucket : layout.buckets) {
    numels_.push_back(bucket.range.length / layout.num_shards);
  }
}

at::Tensor SpilledParameters::take_memory(int bucket) const {
  const MemoryScope memory(MemoryCategory::kParameters);
  const PartPlace& place = places_[bucket];
  return make_io_buffer(place.arrays->io_bytes(place.array, place.elements));
}

at::Tensor SpilledParameters::values_in(const at::Tensor& memory,
                                        int bucket) const {
  const PartPlace& place = places_[bucket];
  return elements_of(
      memory, 0, numels_[bucket], place.arrays->dtype(place.array));
}

void SpilledParameters::expect(int bucket) {
  if (reads_.contains(bucket)) {
    return;
  }
  const PartPlace& place = places_[bucket];
  Transfer read;
  read.memory = take_memory(bucket);
  read.request = place.arrays->read(place.array, place.elements, read.memory);
  reads_.emplace(bucket, std::move(read));
}

at::Tensor SpilledParameters::take(int bucket) {
  expect(bucket);
  auto read = reads_.extract(bucket);
  read.mapped().request.wait();
  return values_in(read.mapped().memory, bucket);
}

void SpilledParameters::write(int bucket, const at::Tensor& part) {
  reads_.erase(bucket);
  const PartPlace& place = places_[bucket];
  const at::Tensor memory = take_memory(bucket);
  memory.zero_();
  values_in(memory, bucket).copy_(part);
  place.arrays->write(place.array, place.elements, memory).wait();
}

void SpilledParameters::forget() {
  reads_.clear();
}

int64_t SpilledParameters::nbytes() const {
  int64_t nbytes = 0;
  for (const PartPlace& place : places_) {
    nbytes += place.arrays->io_bytes(place.array, place.elements);
  }
  return nbytes;
}

}  // namespace triax
