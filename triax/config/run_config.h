// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triax/base/dtype.h"

namespace triax {

// One struct per section of a run file; the members have the keys' names, and
// the defaults here are the defaults. The table in config/fields.cpp binds
// each member to its key, its type, its help and its bounds.

enum class ModelFamily { kLlama, kGpt2 };

/// RoPE. `type` "default" uses theta alone; "llama3" scales (Llama 3.1).
struct RopeScaling {
  std::string type = "default";
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;

  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  std::string hf;  // folder or file of a config.json; replaces the section
  int64_t hidden_size = 256;
  int64_t intermediate_size = 0;  // 0: 4 * hidden_size
  int64_t num_hidden_layers = 4;
  int64_t num_attention_heads = 8;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t vocab_size = 256;
  int64_t max_position_embeddings = 512;
  bool tie_word_embeddings = false;  // gpt2: true unless set
  double norm_eps = 0.0;             // 0: 1e-6 llama, 1e-5 gpt2
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  double initializer_range = 0.02;
  double resid_pdrop = 0.0;
  double embd_pdrop = 0.0;
  double attn_pdrop = 0.0;

  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::string path;                 // text, or the prefix of .bin/.idx
  std::string tokenizer = "bytes";  // only for text
  int64_t sequence_length = 128;
  double validation = 0.0;      // share of the tokens at the end
  std::string validation_path;  // or a file of its own
  bool mask_document_ends = false;

  bool operator==(const DataConfig&) const = default;
};

/// In which type replicas send gradients to be summed: their own, or a
/// narrower one (sums are fp32 all the same, and rounded once).
enum class ReduceDtype { kGradients, kBf16, kFp16 };

struct ParallelConfig {
  int tp = 1;
  int pp = 1;
  int dp = 0;                      // 0: world size / (tp * pp)
  std::string order = "tp-pp-dp";  // innermost first
  std::string schedule = "1f1b";   // gpipe, 1f1b
  int zero = 0;
  int zero_group = 0;                 // 0: dp
  bool reshard_after_forward = true;  // zero 3: backward gathers again
  int prefetch = 1;                   // zero 3: units gathered ahead of use
  int chunks = 1;
  bool sequence_parallel = false;
  std::vector<int64_t> stages;            // empty: auto
  bool weigh_embedding_and_head = false;  // auto counts their parameters too
  int64_t bucket_bytes = 25 << 20;
  ReduceDtype reduce_dtype = ReduceDtype::kGradients;

  bool operator==(const ParallelConfig&) const = default;
};

/// kBf16Autocast: bf16 matrix products over fp32 weights. kBf16, kFp16: the
/// model in that type, its master weights and gradients in fp32.
enum class Precision { kFp64, kFp32, kBf16Autocast, kBf16, kFp16 };

/// The type of the model's parameters and of the residual stream.
constexpr DType parameter_dtype(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return DType::kFloat64;
    case Precision::kFp32:
    case Precision::kBf16Autocast:
      return DType::kFloat32;
    case Precision::kBf16:
      return DType::kBfloat16;
    case Precision::kFp16:
      return DType::kFloat16;
  }
  return DType::kFloat32;
}

/// The type of what the optimizer updates, of its state and of gradients.
constexpr DType master_dtype(Precision precision) {
  return precision == Precision::kFp64 ? DType::kFloat64 : DType::kFloat32;
}

/// Whether masters are kept beside the parameters, in another type.
constexpr bool has_master_weights(Precision precision) {
  return parameter_dtype(precision) != master_dtype(precision);
}

struct TrainingConfig {
  int64_t global_batch_size = 0;  // sequences; 0: from the two below
  int64_t microbatch_size = 1;
  int64_t gradient_accumulation_steps = 0;  // 0: from the two above
  int64_t steps = 100;
  Precision precision = Precision::kFp32;
  double initial_loss_scale = 65536.0;  // fp16
  double min_loss_scale = 1.0;          // fp16; below it the run fails
  int64_t loss_scale_window = 1000;     // fp16: good steps before it doubles
  int64_t validate_every = 0;           // 0: never
  int64_t validation_batches = 0;       // global batches; 0: all
  double gradient_clipping = 1.0;       // 0: off
  double label_smoothing = 0.0;
  double z_loss = 0.0;
  int64_t seed = 1;

  bool operator==(const TrainingConfig&) const = default;
};

/// Logical parameters that match a pattern get their own values.
struct OptimizerGroup {
  std::string pattern;
  std::optional<double> lr;
  std::optional<double> weight_decay;

  bool operator==(const OptimizerGroup&) const = default;
};

struct OptimizerConfig {
  std::string name = "adamw";  // adamw, sgd
  double lr = 1e-3;
  double min_lr = 0.0;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.0;  // sgd
  double weight_decay = 0.1;
  std::string schedule = "cosine";  // constant, cosine, linear, wsd
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // wsd: the last steps; 0: a tenth of all
  std::vector<std::string> freeze;
  std::vector<OptimizerGroup> group;

  /// Elements of state for each element of a parameter.
  int64_t num_states() const {
    return name == "adamw" ? 2 : momentum == 0.0 ? 0 : 1;
  }

  bool operator==(const OptimizerConfig&) const = default;
};

/// What one axis' links are made to cost: latency + bytes / bandwidth.
struct EmulatedLink {
  double latency_seconds = 0.0;
  double bytes_per_second = 0.0;  // 0: no limit
  double jitter = 0.0;            // share of that cost, 0 to 1

  bool operator==(const EmulatedLink&) const = default;
};

struct CommConfig {
  double deadline_seconds = 60.0;
  std::map<std::string, EmulatedLink> emulate;  // by axis: dp, tp, pp

  bool operator==(const CommConfig&) const = default;
};

/// What backward computes again instead of keeping it: nothing; what is cheap
/// (norms, activation functions, attention's probabilities); whole layers;
/// whole groups of layers.
enum class Recompute { kNone, kSelective, kFull, kEveryK };

/// Where states lie between their uses.
enum class Offload { kNone, kHost, kNvme };

struct MemoryConfig {
  Recompute recompute = Recompute::kNone;
  int64_t recompute_layers = 2;  // every_k: layers of a group
  Offload offload = Offload::kNone;
  /// optimizer (with master weights), gradients, parameters, activations
  std::vector<std::string> offload_states = {"optimizer"};
  std::string offload_dir;  // nvme: where the files lie; empty: the run's
  int64_t limit = 0;        // bytes of a rank; 0: none

  /// Layers whose input alone is kept; 0 where more is kept than that.
  int64_t layers_of_a_kept_input() const {
    return recompute == Recompute::kFull     ? 1
           : recompute == Recompute::kEveryK ? recompute_layers
                                             : 0;
  }

  bool operator==(const MemoryConfig&) const = default;
};

struct FaultConfig {
  int restarts = 0;

  bool operator==(const FaultConfig&) const = default;
};

struct RunSection {
  std::string dir;  // left out: runs/NAME-OF-THE-FILE
  std::string device = "cpu";

  bool operator==(const RunSection&) const = default;
};

struct RunConfig {
  ModelConfig model;
  DataConfig data;
  ParallelConfig parallel;
  TrainingConfig training;
  OptimizerConfig optimizer;
  MemoryConfig memory;
  CommConfig comm;
  FaultConfig fault;
  RunSection run;

  /// tp * pp * dp, once dp is resolved.
  int world_size() const { return parallel.tp * parallel.pp * parallel.dp; }
  /// Ranks that split the residual stream's sequence among them.
  int sequence_shares() const {
    return parallel.sequence_parallel ? parallel.tp : 1;
  }
  /// Microbatches a replica runs in one step, once the batch is resolved.
  int64_t num_microbatches() const {
    return training.global_batch_size /
           (training.microbatch_size * parallel.dp);
  }

  bool operator==(const RunConfig&) const = default;
};

}  // namespace triax
