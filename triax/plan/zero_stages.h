// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"

namespace triax {

// Which elements each replica owns (ZeRO, Rajbhandari et al. 2020). Arithmetic
// alone: the trainer carries it out, the memory model counts it.
//
// A rank's trained parameters lie one after the other in a flat buffer, each
// from a multiple of kFlatAlignment on. Neighbours form a bucket, which is
// reduced and gathered in one operation, and is cut into as many equal parts
// as there are shards: shard s owns part s of every bucket. Padding at the end
// of a parameter or bucket exists only in memory, and is zero.
//
//   | p0  . | p1    | p2 . . . |     . padding
//   |   bucket 0    | bucket 1 |
//   |shard 0|shard 1|  0 |  1  |

/// Every parameter and every shard of a bucket starts at a multiple of this
/// many elements: the fused optimizer kernels give other bits on slices that
/// are not aligned.
inline constexpr int64_t kFlatAlignment = 64;

/// Where a piece of whole rows lies in its flattened stored parameter.
Range stored_elements(const Piece& piece, const ParameterLayout& layout);

/// Parameters that are reduced together.
struct Bucket {
  Range range;                  // in the flat buffer, padding included
  std::vector<int> parameters;  // their indices
};

struct FlatOptions {
  /// A bucket is closed before it holds more; a parameter is never split
  /// between buckets, so a larger one has a bucket of its own.
  int64_t bucket_numel = int64_t{25} << 18;
  /// Parts of each bucket; 1: everybody owns everything.
  int num_shards = 1;
  /// By parameter, those that must have a bucket of their own; empty: none.
  std::vector<bool> is_alone = {};
  /// By parameter, a number: where it changes a bucket ends; empty: nowhere.
  std::vector<int> part = {};
};

struct FlatLayout {
  std::vector<Range> parameters;  // where each lies, without padding
  std::vector<Bucket> buckets;    // in order, without gaps
  int num_shards = 1;

  /// Elements of the buffer, padding included.
  int64_t numel() const;
  /// Elements of one shard of it, padding included.
  int64_t shard_numel() const { return numel() / num_shards; }
  /// Elements of the largest bucket.
  int64_t largest_bucket() const;
};

/// Lays out parameters of so many elements, in that order.
FlatLayout make_flat_layout(const std::vector<int64_t>& numels,
                            const FlatOptions& options);

/// Part `shard` of a bucket, in the flat buffer.
Range shard_of(const FlatLayout& layout, const Bucket& bucket, int shard);

/// Where part `shard` of a bucket begins in a buffer that holds the parts of
/// that shard alone, one after the other.
int64_t start_in_shard(const FlatLayout& layout, const Bucket& bucket);

/// Consecutive elements of one parameter that a shard owns.
struct ShardSlice {
  int parameter = 0;
  int bucket = 0;
  Range elements;      // of the parameter, which begins with 0
  int64_t start = 0;   // of the first of them in the flat buffer
  int64_t offset = 0;  // and in the buffer of the shard alone

  bool operator==(const ShardSlice&) const = default;
};

/// What a shard owns, in the buffer's order. A parameter smaller than the
/// shards before it may be whole in one of them, and a shard may own nothing.
std::vector<ShardSlice> slices_of_shard(const FlatLayout& layout, int shard);

/// The bucket of a parameter.
int bucket_of(const FlatLayout& layout, int parameter);

/// Which of a parameter's elements a shard owns, counted from its first; of
/// length 0 where it owns none.
Range owned_elements(const FlatLayout& layout, int parameter, int shard);

/// Elements of the parameters, without padding, that a shard owns.
int64_t owned_numel(const FlatLayout& layout, int shard);

/// Parts into which replicas split what ZeRO splits: 1 with zero = 0, else
/// zero_group, which is dp where it is not set.
int num_shards(const ParallelConfig& parallel);

/// Whether a replica keeps its shard of the gradients alone.
bool splits_gradients(const ParallelConfig& parallel);

/// Whether a replica keeps its shard of the parameters alone.
bool splits_parameters(const ParallelConfig& parallel);

/// Blocks in which split gradients are filled and reduced: one fills while the
/// other is on its way.
inline constexpr int kMaxGradientBlocks = 2;

/// Whether the first and the last stage each hold a copy of it.
bool is_tied_across_stages(const RunConfig& config,
                           const ParameterLayout& layout);

/// Elements of a bucket: parallel.bucket_bytes of gradients.
int64_t bucket_numel(const RunConfig& config);

/// How a run lays out the trained parameters of one stage, given in the
/// buffer's order: backward finishes the last layers first. A weight that is
/// tied across stages has a bucket of its own, so that both stages cut it
/// alike; with ZeRO 3 a bucket lies in one unit (plan/parameter_units.h).
/// `config` must be resolved.
FlatLayout flat_layout(const RunConfig& config,
                       const std::vector<ParameterLayout>& trained);

/// Bytes that the heaviest replica keeps from step to step for the parameters
/// of one stage, and what it needs to reduce them.
struct StateBytesOfRank {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
  /// Blocks that buckets are filled and reduced in, beside the gradients.
  int64_t buckets = 0;
  int num_blocks = 0;
  /// Of `buckets`: copies in the type in which gradients are sent.
  int num_copies = 0;
  int64_t copy_bytes = 0;  // of one
  int64_t largest_bucket = 0;
  int64_t gradient_padding = 0;  // of `gradients`
  /// Units that are there as a whole at a time, beside the parameters.
  int64_t gathered = 0;
};

/// As if all of `stored`, in the order of the forward pass, was trained.
StateBytesOfRank state_bytes_of_rank(
    const RunConfig& config, const std::vector<ParameterLayout>& stored);

}  // namespace triax
