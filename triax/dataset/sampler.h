// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace triax {

/// A permutation of [0, size) that depends on (size, seed, epoch) alone.
///
/// Eight Feistel rounds over the next even power of two (at least 2^8), walked
/// along its cycle until the number is below `size` (from 64 elements on, less
/// than four walks on average). Chosen over a Fisher–Yates shuffle because
/// every rank would hold that (8 bytes a sample) and make it again at each
/// epoch and resume: here any element costs less than a microsecond and no
/// memory.
/// Part of the meaning of a checkpoint's cursor: never change the numbers.
class Permutation {
 public:
  Permutation(int64_t size, uint64_t seed, int64_t epoch);

  int64_t size() const { return size_; }
  int64_t operator[](int64_t index) const;

 private:
  const int64_t size_;
  int half_bits_ = 4;
  std::array<uint64_t, 8> keys_;
};

/// Where a run stands in its data: the only state there is. `index` counts the
/// samples of the epoch that steps have used.
struct Cursor {
  int64_t epoch = 0;
  int64_t index = 0;

  bool operator==(const Cursor&) const = default;
};

/// The order of samples: a pure function of (seed, epoch, index). Knows no
/// rank, so that every rank computes the same and none must be told.
///
/// An epoch is every sample once in a shuffled order, cut into global batches;
/// samples that do not fill a last one are left out of that epoch (others each
/// time, as each epoch has its own order).
class Sampler {
 public:
  struct Options {
    int64_t num_samples = 0;
    int64_t global_batch_size = 1;
    uint64_t seed = 0;
  };
  /// Throws Error when the samples do not fill one global batch.
  explicit Sampler(const Options& options);

  /// The sample numbers of the global batch at `cursor`, in order. A cursor
  /// of another batch size is legal, as long as it is within its epoch.
  std::vector<int64_t> batch_at(const Cursor& cursor) const;
  /// Where the batch at `cursor` lies: there, or at the next epoch's start
  /// when what is left of the epoch does not fill it.
  Cursor begin_of_batch(const Cursor& cursor) const;
  /// The cursor after the batch at `cursor`.
  Cursor next(const Cursor& cursor) const;
  /// The cursor of step `step` of a run whose batch size never changed.
  Cursor cursor_at_step(int64_t step) const;

  int64_t batches_per_epoch() const;
  int64_t samples_left_out_per_epoch() const;
  /// A sentence to print once when an epoch leaves samples out.
  std::optional<std::string> notice() const;

  const Options& options() const { return options_; }

 private:
  const Options options_;
};

/// The part of a global batch that is one microbatch of one replica.
struct BatchPart {
  int dp = 1;
  int dp_rank = 0;
  int64_t microbatch_size = 1;
  int64_t microbatch = 0;
};

/// Replica r takes the r-th of dp contiguous parts of the batch, microbatch k
/// the k-th contiguous part of that: the multiset of a batch does not depend
/// on dp nor on the microbatch size, which must divide it.
std::span<const int64_t> microbatch_of(std::span<const int64_t> global_batch,
                                       const BatchPart& part);

}  // namespace triax
