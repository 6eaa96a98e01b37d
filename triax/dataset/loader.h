// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "triax/base/piece.h"
#include "triax/dataset/batch.h"
#include "triax/dataset/sampler.h"
#include "triax/dataset/token_file.h"

namespace triax {

/// Training data without end, read ahead by a thread of its own.
///
/// What next() gives depends on the arguments alone: two loaders of equal data
/// and seed at one cursor give the same, whatever dp, microbatch size or how
/// the run came there. Make it after the rank has been forked. One thread
/// calls next(); the destructor stops and joins the reader.
class Loader {
 public:
  struct Options {
    BatchOptions batch;
    uint64_t seed = 0;
    int prefetch_steps = 2;
  };
  /// Throws Error when the data do not fill one global batch.
  Loader(std::shared_ptr<const TokenFile> file,
         Range tokens,
         const Options& options,
         const Cursor& cursor = {});
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next step of this replica. Waits for it; throws the reader's error
  /// once the steps before it are used up, and again at each later call.
  StepData next();

  const Sampler& sampler() const { return sampler_; }
  const TokenFile& file() const { return reader_.file(); }

 private:
  void run(const std::stop_token& stop, Cursor cursor);

  const BatchReader reader_;
  const Sampler sampler_;
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<StepData> ready_;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it uses all of the above
};

/// Held-out data, in order. The last global batch, which may be the only one,
/// is filled up with ignored rows, so that all replicas do equal work; it is
/// never empty as a whole, but a replica's part of it may be.
class ValidationSet {
 public:
  /// `max_batches` 0: all. Throws Error when there is not even one sample.
  ValidationSet(std::shared_ptr<const TokenFile> file,
                Range tokens,
                const BatchOptions& options,
                int64_t max_batches = 0);

  int64_t num_batches() const;  // global batches
  StepData batch(int64_t index) const;

 private:
  const BatchReader reader_;
  const int64_t max_batches_;
};

}  // namespace triax
