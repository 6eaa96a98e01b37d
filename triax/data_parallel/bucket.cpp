// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/bucket.h"

#include "triax/base/error.h"
#include "triax/data_parallel/gradient_hooks.h"

namespace triax {

BucketReducer::BucketReducer(FlatBuffer& buffer,
                             ReplicaGroups& groups,
                             std::optional<at::ScalarType> sent_as)
    : buffer_(buffer),
      groups_(groups),
      buckets_(buffer.layout().buckets),
      bucket_of_(buffer.num_parameters()),
      sums_(sent_as),
      self_(std::make_shared<BucketReducer*>(this)) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (int parameter : buckets_[b].parameters) {
      bucket_of_[parameter] = static_cast<int>(b);
    }
  }
  for (int i = 0; i < buffer.num_parameters(); ++i) {
    after_gradient(buffer.parameter(i), [self = self_, i] {
      if (*self != nullptr) {
        (*self)->on_gradient(i);
      }
    });
  }
}

BucketReducer::~BucketReducer() {
  *self_ = nullptr;
}

void BucketReducer::prepare() {
  TRIAX_CHECK(sums_.empty(), "the last step was not finished");
  missing_.clear();
  for (const Bucket& bucket : buckets_) {
    missing_.push_back(static_cast<int>(bucket.parameters.size()));
  }
  arrived_.assign(buffer_.num_parameters(), false);
  next_bucket_ = 0;
  is_last_microbatch_ = true;
}

void BucketReducer::abandon() {
  sums_.wait();
  is_last_microbatch_ = false;
}

void BucketReducer::on_gradient(int parameter) {
  if (!is_last_microbatch_) {
    return;
  }
  TRIAX_CHECK(bucket_of_[parameter] >= static_cast<int>(next_bucket_),
              "a gradient came after its bucket was reduced");
  if (arrived_[parameter]) {
    return;
  }
  TRIAX_CHECK(buffer_.parameter(parameter).grad().data_ptr() ==
                  buffer_.gradient(parameter).data_ptr(),
              "a gradient left the flat buffer");
  arrived_[parameter] = true;
  --missing_[bucket_of_[parameter]];
  start_ready();
}

void BucketReducer::start_ready() {
  // In order, so that every replica starts the same sequence.
  while (next_bucket_ < buckets_.size() && missing_[next_bucket_] == 0) {
    if (before_reduce) {
      before_reduce(static_cast<int>(next_bucket_));
    }
    start(buckets_[next_bucket_]);
    ++next_bucket_;
  }
}

at::Tensor BucketReducer::shard(const Bucket& bucket) const {
  return buffer_.slice(shard_of(buffer_.layout(), bucket, groups_.shard()));
}

void BucketReducer::start(const Bucket& bucket) {
  if (Group* shards = groups_.shards()) {
    sums_.reduce_scatter(*shards, buffer_.slice(bucket.range), shard(bucket));
  } else if (Group* replicas = groups_.replicas()) {
    sums_.all_reduce(*replicas, buffer_.slice(bucket.range));
  }
}

void BucketReducer::finish() {
  TRIAX_CHECK(is_last_microbatch_, "finish() without prepare()");
  missing_.assign(buckets_.size(), 0);
  start_ready();
  sums_.wait();
  if (groups_.shards() != nullptr && groups_.replicas() != nullptr) {
    for (const Bucket& bucket : buckets_) {
      sums_.all_reduce(*groups_.replicas(), shard(bucket));
    }
    sums_.wait();
  }
  is_last_microbatch_ = false;
}

}  // namespace triax
