// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triax/config/value.h"
#include "triax/foreign/foreign_config.h"

namespace triax {

/// Something a config says of its run. Without a value: it does not say it.
template <class T>
struct Fact {
  std::optional<T> value;
  /// The key in the system's own words; empty: it was derived.
  std::string key;
  /// Where it stands; of a default or of what was derived: the file.
  Position position;
  /// The system's default, which nobody wrote.
  bool is_default = false;

  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
  T value_or(T other) const { return value.value_or(other); }
  bool is_set() const { return value.has_value() && !is_default; }
};

using Whole = Fact<int64_t>;
using Real = Fact<double>;
using Flag = Fact<bool>;
using Word = Fact<std::string>;

/// A run in the terms that all systems share. The rules over batches, shapes
/// and choices read nothing else. A reader fills what its config says (or what
/// the system would take by default) and leaves the rest empty; it derives
/// nothing, the rules do.
///
/// Counts are of ranks, sequences, tokens and elements. Bytes are named.
struct RunFacts {
  System system = System::kTriax;
  std::string file;

  // The layout. tp * pp * cp * dp = world; experts lie within dp * cp * tp.
  Whole world;  // only where the config itself says it
  Whole tp;
  Whole pp;
  Whole cp;
  Whole ep;         // experts' degree
  Whole expert_tp;  // tp inside an expert
  Whole dp;         // all of it: replicas times shards
  Whole dp_shards;  // ranks that share one copy of the states
  Flag sequence_parallel;
  Flag dp_includes_cp;  // the sharding group is dp * cp (Megatron, TorchTitan)

  // The batch, in sequences; microbatch: of one replica.
  Whole microbatch;
  Whole accumulation;  // microbatches of one step
  Whole global_batch;
  Flag has_batch_ramp;

  // Data parallelism.
  Whole zero_stage;         // 0 to 3; FSDP is 3, a distributed optimizer 1
  Word offload_optimizer;   // "none", "cpu", "nvme"
  Word offload_parameters;  // the same
  Whole bucket_elements;    // reduction bucket
  Flag overlap_reduce;
  Flag overlap_gather;

  // Precision: "fp32", "fp16", "bf16", "fp8" of the computation;
  // "bf16_autocast" of triax, whose weights then stay fp32.
  Word precision;
  Real loss_scale;  // 0: dynamic
  Word reduce_dtype;

  // The pipeline.
  Word schedule;           // "1f1b", "interleaved", "gpipe", "zero_bubble"
  Whole chunks;            // of a stage (virtual stages)
  Whole layers_per_chunk;  // where that is what is given
  Whole first_stage_layers;
  Whole last_stage_layers;
  Flag has_custom_stages;  // a layout that only the system can judge

  // Memory.
  Word recompute;            // "none", "selective", "full"
  Flag recompute_splits_tp;  // saved activations are spread over tp

  // The model.
  Whole layers;
  Whole hidden;
  Whole ffn;
  Whole heads;
  Whole kv_heads;
  Whole head_dim;
  Whole vocabulary;
  Whole vocabulary_multiple;  // padded to a multiple of this (times tp)
  Whole experts;
  Whole sequence;  // tokens of one sequence
  Whole max_positions;
  Flag tied;
  Flag gated;  // the feed-forward has three matrices
  Flag learned_positions;
  Word activation;
  Word norm;

  // Training.
  Word optimizer;
  Real lr;
  Real min_lr;
  Real weight_decay;
  Real clipping;  // 0: off
  Real beta1;
  Real beta2;
  Real adam_eps;
  Word lr_schedule;
  Whole warmup_steps;
  Whole decay_steps;
  Whole steps;
  Whole samples;  // where the length is given in sequences
  Whole seed;
  Flag profiles;  // a profiler is on
};

/// "zero_optimization.stage" and the like: a fact of a config's value.
/// Empty where the path is not set or has another type; a whole number is a
/// number too, and 5e8 is a whole number.
Whole whole_at(const ForeignConfig& config, const std::string& path);
Real real_at(const ForeignConfig& config, const std::string& path);
Flag flag_at(const ForeignConfig& config, const std::string& path);
Word word_at(const ForeignConfig& config, const std::string& path);

/// What `source` says, in the words that all systems share.
Word word_fact(const Word& source, std::string value);

/// A default of the system: a fact without a place.
template <class T>
Fact<T> default_fact(const ForeignConfig& config, std::string key, T value) {
  return {std::move(value), std::move(key), {config.file, 0, 0}, true};
}

/// `fact`, else the system's default for its key.
template <class T>
Fact<T> or_default(Fact<T> fact,
                   const ForeignConfig& config,
                   std::string key,
                   T value) {
  return fact ? fact : default_fact(config, std::move(key), std::move(value));
}

}  // namespace triax
