// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/loader.h"

#include <algorithm>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/rounding.h"

namespace triax {

Loader::Loader(std::shared_ptr<const TokenFile> file,
               Range tokens,
               const Options& options,
               const Cursor& cursor)
    : reader_(std::move(file), tokens, options.batch),
      sampler_({.num_samples = reader_.num_samples(),
                .global_batch_size = options.batch.global_batch_size,
                .seed = options.seed}),
      capacity_(static_cast<size_t>(options.prefetch_steps)) {
  TRIAX_CHECK(options.prefetch_steps >= 1, options.prefetch_steps);
  thread_ = std::jthread(
      [this, cursor](const std::stop_token& stop) { run(stop, cursor); });
}

void Loader::run(const std::stop_token& stop, Cursor cursor) {
  try {
    while (!stop.stop_requested()) {
      StepData step = reader_.read(sampler_.batch_at(cursor));
      step.begin = sampler_.begin_of_batch(cursor);
      step.end = sampler_.next(cursor);
      cursor = step.end;
      std::unique_lock lock(mutex_);
      if (!changed_.wait(
              lock, stop, [&] { return ready_.size() < capacity_; })) {
        return;
      }
      ready_.push_back(std::move(step));
      changed_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

StepData Loader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || error_; });
  if (ready_.empty()) {
    std::rethrow_exception(error_);
  }
  StepData step = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return step;
}

ValidationSet::ValidationSet(std::shared_ptr<const TokenFile> file,
                             Range tokens,
                             const BatchOptions& options,
                             int64_t max_batches)
    : reader_(std::move(file), tokens, options), max_batches_(max_batches) {
  TRIAX_CHECK(max_batches >= 0, max_batches);
  if (reader_.num_samples() == 0) {
    throw Error("the validation data have ",
                tokens.length,
                " tokens, but one sample takes data.sequence_length + 1 = ",
                options.sequence_length + 1,
                "; give more, or a shorter sequence_length");
  }
}

int64_t ValidationSet::num_batches() const {
  const int64_t batch = reader_.options().global_batch_size;
  const int64_t all = divide_up(reader_.num_samples(), batch);
  return max_batches_ == 0 ? all : std::min(all, max_batches_);
}

StepData ValidationSet::batch(int64_t index) const {
  TRIAX_CHECK(index >= 0 && index < num_batches(), index);
  const int64_t size = reader_.options().global_batch_size;
  std::vector<int64_t> samples(static_cast<size_t>(size), kPaddingSample);
  const int64_t first = index * size;
  const int64_t count = std::min(size, reader_.num_samples() - first);
  for (int64_t i = 0; i < count; ++i) {
    samples[static_cast<size_t>(i)] = first + i;
  }
  return reader_.read(samples);
}

}  // namespace triax
