// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/sampler.h"

#include <algorithm>
#include <bit>

#include "triax/base/error.h"

namespace triax {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch)
    : size_(size) {
  TRIAX_CHECK(size >= 1 && epoch >= 0, size, ", epoch ", epoch);
  const int bits = std::bit_width(static_cast<uint64_t>(size - 1));
  half_bits_ = std::max(8, bits + 1) / 2;
  uint64_t state = mix(mix(seed + kGolden) + static_cast<uint64_t>(epoch));
  for (uint64_t& key : keys_) {
    state += kGolden;
    key = mix(state);
  }
}

int64_t Permutation::operator[](int64_t index) const {
  TRIAX_CHECK(index >= 0 && index < size_, index);
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & mask;
    for (uint64_t key : keys_) {
      const uint64_t sum = left ^ (mix(right ^ key) & mask);
      left = right;
      right = sum;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

Sampler::Sampler(const Options& options) : options_(options) {
  TRIAX_CHECK(options.global_batch_size >= 1, options.global_batch_size);
  if (options.num_samples < options.global_batch_size) {
    throw Error("training.global_batch_size (",
                options.global_batch_size,
                ") must not exceed the samples of the training data (",
                options.num_samples,
                "); lower it or data.sequence_length, or give more data");
  }
}

Cursor Sampler::begin_of_batch(const Cursor& cursor) const {
  TRIAX_CHECK(cursor.epoch >= 0 && cursor.index >= 0 &&
                  cursor.index <= options_.num_samples,
              cursor.epoch,
              ", ",
              cursor.index);
  if (options_.num_samples - cursor.index < options_.global_batch_size) {
    return {cursor.epoch + 1, 0};
  }
  return cursor;
}

std::vector<int64_t> Sampler::batch_at(const Cursor& cursor) const {
  const Cursor begin = begin_of_batch(cursor);
  const Permutation order(options_.num_samples, options_.seed, begin.epoch);
  std::vector<int64_t> batch(static_cast<size_t>(options_.global_batch_size));
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i] = order[begin.index + static_cast<int64_t>(i)];
  }
  return batch;
}

Cursor Sampler::next(const Cursor& cursor) const {
  Cursor after = begin_of_batch(cursor);
  after.index += options_.global_batch_size;
  return begin_of_batch(after);
}

Cursor Sampler::cursor_at_step(int64_t step) const {
  TRIAX_CHECK(step >= 0, step);
  const int64_t batches = batches_per_epoch();
  return {step / batches, step % batches * options_.global_batch_size};
}

int64_t Sampler::batches_per_epoch() const {
  return options_.num_samples / options_.global_batch_size;
}

int64_t Sampler::samples_left_out_per_epoch() const {
  return options_.num_samples % options_.global_batch_size;
}

std::optional<std::string> Sampler::notice() const {
  const int64_t left_out = samples_left_out_per_epoch();
  if (left_out == 0) {
    return std::nullopt;
  }
  return detail::join("each epoch leaves out ",
                      left_out,
                      " of ",
                      options_.num_samples,
                      " samples, others each time: they do not fill a global "
                      "batch of ",
                      options_.global_batch_size);
}

std::span<const int64_t> microbatch_of(std::span<const int64_t> global_batch,
                                       const BatchPart& part) {
  const auto total = static_cast<int64_t>(global_batch.size());
  TRIAX_CHECK(total % (part.dp * part.microbatch_size) == 0,
              total,
              " over ",
              part.dp,
              " x ",
              part.microbatch_size);
  const int64_t per_replica = total / part.dp;
  TRIAX_CHECK(part.dp_rank >= 0 && part.dp_rank < part.dp, part.dp_rank);
  TRIAX_CHECK(part.microbatch >= 0 &&
                  part.microbatch < per_replica / part.microbatch_size,
              part.microbatch);
  const int64_t first =
      part.dp_rank * per_replica + part.microbatch * part.microbatch_size;
  return global_batch.subspan(static_cast<size_t>(first),
                              static_cast<size_t>(part.microbatch_size));
}

}  // namespace triax
