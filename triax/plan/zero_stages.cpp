// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/zero_stages.h"

#include <algorithm>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/plan/parameter_units.h"

namespace triax {
Range stored_elements(const Piece& piece, const ParameterLayout& layout) {
  const Range rows = piece.stored_rows();
  const int64_t row =
      layout.shape[0] == 0 ? 0 : layout.numel() / layout.shape[0];
  return {rows.start * row, rows.length * row};
}

int64_t FlatLayout::numel() const {
  return buckets.empty()
             ? 0
             : buckets.back().range.start + buckets.back().range.length;
}

int64_t FlatLayout::largest_bucket() const {
  int64_t largest = 0;
  for (const Bucket& bucket : buckets) {
    largest = std::max(largest, bucket.range.length);
  }
  return largest;
}

FlatLayout make_flat_layout(const std::vector<int64_t>& numels,
                            const FlatOptions& options) {
  TRIAX_CHECK(options.num_shards >= 1, options.num_shards);
  TRIAX_CHECK(
      options.is_alone.empty() || options.is_alone.size() == numels.size(),
      options.is_alone.size());
  TRIAX_CHECK(options.part.empty() || options.part.size() == numels.size(),
              options.part.size());
  FlatLayout layout;
  layout.num_shards = options.num_shards;
  const auto is_alone = [&](size_t i) {
    return !options.is_alone.empty() && options.is_alone[i];
  };
  const auto close = [&](Bucket& bucket) {
    bucket.range.length =
        round_up(bucket.range.length, kFlatAlignment * options.num_shards);
  };
  for (size_t i = 0; i < numels.size(); ++i) {
    const int64_t length = round_up(numels[i], kFlatAlignment);
    const bool opens =
        layout.buckets.empty() || is_alone(i) || is_alone(i - 1) ||
        (!options.part.empty() && options.part[i] != options.part[i - 1]) ||
        layout.buckets.back().range.length + length > options.bucket_numel;
    if (opens) {
      if (!layout.buckets.empty()) {
        close(layout.buckets.back());
      }
      layout.buckets.push_back({{layout.numel(), 0}, {}});
    }
    Bucket& bucket = layout.buckets.back();
    layout.parameters.push_back(
        {bucket.range.start + bucket.range.length, numels[i]});
    bucket.range.length += length;
    bucket.parameters.push_back(static_cast<int>(i));
  }
  if (!layout.buckets.empty()) {
    close(layout.buckets.back());
  }
  return layout;
}

Range shard_of(const FlatLayout& layout, const Bucket& bucket, int shard) {
  const int64_t length = bucket.range.length / layout.num_shards;
  return {bucket.range.start + shard * length, length};
}

int64_t start_in_shard(const FlatLayout& layout, const Bucket& bucket) {
  return bucket.range.start / layout.num_shards;
}

std::vector<ShardSlice> slices_of_shard(const FlatLayout& layout, int shard) {
  std::vector<ShardSlice> slices;
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    const Bucket& bucket = layout.buckets[b];
    const Range part = shard_of(layout, bucket, shard);
    for (const int parameter : bucket.parameters) {
      const Range& whole = layout.parameters[parameter];
      const Range mine = intersection(whole, part);
      if (mine.length > 0) {
        slices.push_back({.parameter = parameter,
                          .bucket = static_cast<int>(b),
                          .elements = {mine.start - whole.start, mine.length},
                          .start = mine.start,
                          .offset = start_in_shard(layout, bucket) +
                                    mine.start - part.start});
      }
    }
  }
  return slices;
}

int bucket_of(const FlatLayout& layout, int parameter) {
  const auto found = std::find_if(
      layout.buckets.begin(), layout.buckets.end(), [&](const Bucket& bucket) {
        return bucket.parameters.front() <= parameter &&
               parameter <= bucket.parameters.back();
      });
  TRIAX_CHECK(found != layout.buckets.end(), "parameter ", parameter);
  return static_cast<int>(found - layout.buckets.begin());
}

Range owned_elements(const FlatLayout& layout, int parameter, int shard) {
  const Bucket& bucket = layout.buckets[bucket_of(layout, parameter)];
  const Range& whole = layout.parameters[parameter];
  const Range mine = intersection(whole, shard_of(layout, bucket, shard));
  return {mine.length > 0 ? mine.start - whole.start : 0, mine.length};
}

int64_t owned_numel(const FlatLayout& layout, int shard) {
  int64_t numel = 0;
  for (const ShardSlice& slice : slices_of_shard(layout, shard)) {
    numel += slice.elements.length;
  }
  return numel;
}

int num_shards(const ParallelConfig& parallel) {
  if (parallel.zero == 0) {
    return 1;
  }
  return parallel.zero_group > 0 ? parallel.zero_group : parallel.dp;
}

bool splits_gradients(const ParallelConfig& parallel) {
  return parallel.zero >= 2 && num_shards(parallel) > 1;
}

bool splits_parameters(const ParallelConfig& parallel) {
  return parallel.zero >= 3 && num_shards(parallel) > 1;
}

bool is_tied_across_stages(const RunConfig& config,
                           const ParameterLayout& layout) {
  return config.model.tie_word_embeddings && config.parallel.pp > 1 &&
         layout.role == ParameterRole::kEmbedding;
}

int64_t bucket_numel(const RunConfig& config) {
  return config.parallel.bucket_bytes /
         dtype_bytes(master_dtype(config.training.precision));
}

FlatLayout flat_layout(const RunConfig& config,
                       const std::vector<ParameterLayout>& trained) {
  if (splits_parameters(config.parallel)) {
    return trained_layout(unit_parameters(config, trained),
                          bucket_numel(config),
                          num_shards(config.parallel));
  }
  FlatOptions options = {.bucket_numel = bucket_numel(config),
                         .num_shards = num_shards(config.parallel)};
  std::vector<int64_t> numels;
  for (const ParameterLayout& layout : trained) {
    numels.push_back(layout.numel());
    options.is_alone.push_back(options.num_shards > 1 &&
                               is_tied_across_stages(config, layout));
  }
  return make_flat_layout(numels, options);
}

namespace {

int64_t numel_gathered(const RunConfig& config,
                       const std::vector<ParameterLayout>& trained) {
  if (!splits_parameters(config.parallel)) {
    return 0;
  }
  const UnitLayout layout = unit_layout(config, trained);
  return config.parallel.reshard_after_forward
             ? most_gathered(layout, config.parallel.prefetch)
             : layout.numel();
}

}  // namespace

StateBytesOfRank state_bytes_of_rank(
    const RunConfig& config, const std::vector<ParameterLayout>& stored) {
  const std::vector<ParameterLayout> trained(stored.rbegin(), stored.rend());
  const FlatLayout layout = flat_layout(config, trained);
  const int64_t element_bytes =
      dtype_bytes(master_dtype(config.training.precision));
  const bool has_shards = layout.num_shards > 1;
  const bool is_split = splits_gradients(config.parallel);
  int64_t numel = 0;
  for (const Range& range : layout.parameters) {
    numel += range.length;
  }
  int64_t most_owned = 0;
  for (int shard = 0; shard < layout.num_shards; ++shard) {
    most_owned = std::max(most_owned, owned_numel(layout, shard));
  }
  StateBytesOfRank bytes;
  const int64_t parameter_bytes =
      dtype_bytes(parameter_dtype(config.training.precision));
  bytes.parameters = parameter_bytes * (has_shards ? layout.numel() : numel);
  if (splits_parameters(config.parallel)) {
    bytes.parameters = parameter_bytes * layout.shard_numel();
    bytes.gathered = parameter_bytes * numel_gathered(config, trained);
  }
  bytes.gradients =
      element_bytes * (is_split ? layout.shard_numel() : layout.numel());
  bytes.gradient_padding = element_bytes * (layout.numel() - numel) /
                           (is_split ? layout.num_shards : 1);
  const int num_masters = has_master_weights(config.training.precision) ? 1 : 0;
  bytes.optimizer = element_bytes * most_owned *
                    (config.optimizer.num_states() + num_masters);
  bytes.largest_bucket = element_bytes * layout.largest_bucket();
  const bool is_narrowed =
      config.parallel.reduce_dtype != ReduceDtype::kGradients;
  if (is_split || (is_narrowed && config.parallel.dp > 1)) {
    const auto num_reductions = static_cast<int64_t>(layout.buckets.size()) *
                                (is_split ? config.num_microbatches() : 1);
    const auto num_on_their_way =
        static_cast<int>(std::min<int64_t>(kMaxGradientBlocks, num_reductions));
    // A block whose copy is sent is free again.
    bytes.num_blocks = !is_split ? 0 : is_narrowed ? 1 : num_on_their_way;
    bytes.num_copies = is_narrowed ? num_on_their_way : 0;
    bytes.copy_bytes = dtype_bytes(DType::kBfloat16) * layout.largest_bucket();
    bytes.buckets = bytes.num_blocks * bytes.largest_bucket +
                    bytes.num_copies * bytes.copy_bytes;
  }
  return bytes;
}

}  // namespace triax
