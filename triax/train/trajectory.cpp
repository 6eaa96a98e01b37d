// SPDX-License-Identifier: Apache-2.0
#include "triax/train/trajectory.h"

#include <optional>
#include <utility>

#include "triax/comm/local.h"
#include "triax/model/scalar_type.h"
#include "triax/train/trainer.h"

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

}  // namespace

RunConfig one_rank_config(RunConfig config, int64_t microbatch_size) {
  config.parallel.tp = 1;
  config.parallel.pp = 1;
  config.parallel.dp = 1;
  config.parallel.stages.clear();
  config.training.microbatch_size = microbatch_size;
  return config;
}

std::vector<RunConfig> noise_configs(const RunConfig& config) {
  std::vector<RunConfig> configs;
  const Precision precision = config.training.precision;
  if (precision == Precision::kFp64) {
    return configs;
  }
  if (const auto size = other_microbatch_size(config)) {
    configs.push_back(one_rank_config(config, *size));
  }
  // The rows of a product round alike in every microbatch, but not where its
  // terms are added up in parts: that noise is seen against a wider type.
  configs.push_back(one_rank_config(config, config.training.microbatch_size));
  configs.back().training.precision =
      precision == Precision::kFp32 ? Precision::kFp64 : Precision::kFp32;
  return configs;
}

Trajectory record_steps(const RunConfig& config,
                        DeviceMesh& mesh,
                        const std::shared_ptr<Board>& board,
                        int64_t num_steps,
                        Break broken) {
  Recorder recorder(board, mesh.rank());
  Trainer trainer(
      config,
      mesh,
      recorder,
      {.broken = broken, .on_failure = [&](const std::exception& error) {
         board->fail(mesh.rank(), error.what());
       }});
  const at::ScalarType dtype =
      to_scalar_type(storage_dtype(config.training.precision));
  Trajectory trajectory;
  const auto gather = [&](const std::string& what, SlotTensor which) {
    GatheredTensors gathered =
        gather_logical(config, mesh, trainer.rank_model().slots, which);
    for (auto& [name, tensor] : gathered.tensors) {
      tensor = tensor.to(dtype);
    }
    for (const std::string& text : gathered.drifted) {
      trajectory.drifted.push_back(what + text);
    }
    return std::move(gathered.tensors);
  };
  trajectory.start = gather("initial ", weight_of);
  trainer.on_gradients = [&] {
    trajectory.gradients.push_back(gather("gradient of ", gradient_of));
  };
  for (int64_t step = 0; step < num_steps; ++step) {
    const StepStats stats = trainer.step();
    trajectory.losses.push_back(stats.loss);
    trajectory.norms.push_back(stats.grad_norm);
  }
  trajectory.end = gather("", weight_of);
  return trajectory;
}

Trajectory record_alone(const RunConfig& config, int64_t num_steps) {
  const std::shared_ptr<Board> board = Board::create(1);
  const auto world = make_local_world(1, {.board = board});
  DeviceMesh mesh(ParallelDims{}, world->join(0));
  return record_steps(config, mesh, board, num_steps);
}

}  // namespace triax
