// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triax/check/breaks.h"
#include "triax/comm/board.h"
#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/train/gather.h"

namespace triax {

/// What a few steps of a layout leave. Tensors have the stored dtype.
struct Trajectory {
  std::vector<double> losses;
  std::vector<double> norms;
  TensorMap start;                   // the initial weights
  std::vector<TensorMap> gradients;  // by step, before clipping
  TensorMap end;                     // the weights
  std::vector<std::string> drifted;  // copies that differ between ranks
};

/// Trains for some steps. Every rank of the mesh must call; tensors and drifted
/// are empty but on world rank 0.
Trajectory record_steps(const RunConfig& config,
                        DeviceMesh& mesh,
                        const std::shared_ptr<Board>& board,
                        int64_t num_steps,
                        Break broken = Break::kNone);

/// The same for a config of one rank, in this process alone.
Trajectory record_alone(const RunConfig& config, int64_t num_steps);

/// The run of `config` on one rank.
RunConfig one_rank_config(RunConfig config, int64_t microbatch_size);

/// Runs on one rank that differ from that of `config` by rounding only: with
/// another microbatch size, and in a wider type. None in fp64.
std::vector<RunConfig> noise_configs(const RunConfig& config);

}  // namespace triax
