// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/reference_runs.h"

#include <algorithm>
#include <optional>

#include "triax/plan/logical_parameters.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

/// Another microbatch size that divides the global batch: the least other one.
std::optional<int64_t> other_microbatch_size(const RunConfig& config) {
  for (int64_t size = 1; size <= config.training.global_batch_size; ++size) {
    if (config.training.global_batch_size % size == 0 &&
        size != config.training.microbatch_size) {
      return size;
    }
  }
  return std::nullopt;
}

/// Its weights are given: its own update is nothing that is looked at.
RunConfig led_config(const RunConfig& config, int64_t microbatch_size) {
  RunConfig led = one_rank_config(config, microbatch_size);
  led.optimizer.name = "sgd";
  led.optimizer.momentum = 0;
  return led;
}

struct ModelSize {
  int64_t numel = 0;
  int64_t largest = 0;  // elements of the largest parameter
};

ModelSize size_of(const ModelConfig& model) {
  ModelSize size;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    size.numel += parameter.numel();
    size.largest = std::max(size.largest, parameter.numel());
  }
  return size;
}

/// Of an element of a gradient, and of what an update changes.
int64_t master_bytes(const RunConfig& config) {
  return dtype_bytes(master_dtype(config.training.precision));
}

/// Whole masters of every rank, which are put together from shards to be
/// compared; no step runs meanwhile.
int64_t gathered_master_bytes(const RunConfig& config) {
  int64_t numel = 0;
  if (has_master_weights(config.training.precision)) {
    for (const ModelPart& part : split_stages(config.model, config.parallel)) {
      for (const ParameterLayout& layout :
           parameter_layouts(config.model, part, config.parallel.tp, 0)) {
        numel += layout.numel();
      }
    }
  }
  return numel * config.parallel.tp * config.parallel.dp * master_bytes(config);
}

}  // namespace

RunConfig one_rank_config(RunConfig config, int64_t microbatch_size) {
  config.parallel.tp = 1;
  config.parallel.pp = 1;
  config.parallel.dp = 1;
  config.parallel.stages.clear();
  config.parallel.sequence_parallel = false;
  config.parallel.zero = 0;
  config.parallel.zero_group = 0;
  config.memory.recompute = Recompute::kNone;
  config.memory.offload = Offload::kNone;
  config.training.microbatch_size = microbatch_size;
  return config;
}

bool sends_narrower(const ParallelConfig& parallel) {
  return parallel.dp > 1 && parallel.reduce_dtype != ReduceDtype::kGradients;
}

bool has_exact_gradients(const RunConfig& config) {
  return config.training.precision == Precision::kFp64 &&
         !sends_narrower(config.parallel);
}

RunConfig reference_config(const RunConfig& config) {
  const int64_t microbatch_size = config.training.microbatch_size;
  return has_exact_gradients(config) ? one_rank_config(config, microbatch_size)
                                     : led_config(config, microbatch_size);
}

std::vector<RunConfig> noise_configs(const RunConfig& config) {
  std::vector<RunConfig> configs;
  const Precision precision = config.training.precision;
  if (precision == Precision::kFp64) {
    return configs;
  }
  if (const auto size = other_microbatch_size(config)) {
    configs.push_back(led_config(config, *size));
  }
  // The rows of a product round alike in every microbatch, but not where its
  // terms are added up in parts: that noise is seen against a wider type.
  configs.push_back(reference_config(config));
  configs.back().training.precision =
      precision == Precision::kFp32 ? Precision::kFp64 : Precision::kFp32;
  return configs;
}

VerifyMemory predict_verify_memory(const RunConfig& config) {
  VerifyMemory memory;
  int64_t layout_step_bytes = 0;  // that are free between two steps
  for (const StageMemory& stage : predict_memory(config)) {
    const int64_t num_ranks = int64_t{config.parallel.tp} * config.parallel.dp;
    const int64_t step_bytes = stage.total_bytes() - stage.state_bytes();
    memory.layout_bytes += num_ranks * stage.total_bytes();
    layout_step_bytes += num_ranks * step_bytes;
    if (splits_parameters(config.parallel)) {
      // All ranks gather their weights at once when these are compared.
      const MemoryLine* parameters = stage.line_of(MemoryKind::kParameters);
      const int64_t whole = (parameters->nbytes + parameters->disk_bytes) *
                            num_shards(config.parallel);
      memory.layout_bytes +=
          num_ranks * std::max<int64_t>(0, whole - step_bytes);
    }
  }
  const ModelSize size = size_of(config.model);
  const int64_t whole = size.numel * master_bytes(config);
  // Gradients of a run on one rank beside the layout's and the reference's: of
  // a noise run, or the sums of the microbatches so far.
  int64_t other_gradients = has_exact_gradients(config) ? 0 : whole;
  std::vector<RunConfig> runs = {reference_config(config)};
  for (const RunConfig& run : noise_configs(config)) {
    runs.push_back(run);
    other_gradients = std::max(other_gradients, size.numel * master_bytes(run));
  }
  int64_t step_bytes = 0;
  for (const RunConfig& run : runs) {
    const StageMemory alone = predict_memory(run).front();
    memory.reference_bytes += alone.state_bytes();
    step_bytes =
        std::max(step_bytes, alone.total_bytes() - alone.state_bytes());
  }
  const int64_t replay_bytes =
      predict_memory(one_rank_config(config, config.training.microbatch_size))
          .front()
          .state_bytes();
  const int64_t for_a_while =
      std::max(step_bytes, gathered_master_bytes(config));
  const int64_t gradients = 2 * whole + other_gradients;
  const int64_t compared = 3 * size.largest * dtype_bytes(DType::kFloat64);
  const int64_t masks = has_exact_gradients(config) ? size.numel : 0;
  memory.reference_bytes +=
      whole + replay_bytes + gradients + masks + compared +
      std::max<int64_t>(0, for_a_while - layout_step_bytes);
  return memory;
}

}  // namespace triax
