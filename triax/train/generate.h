// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "triax/comm/recorder.h"
#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/train/rank_model.h"

namespace triax {

struct GenerateOptions {
  std::vector<int64_t> prompt;  // at least one token
  int64_t num_tokens = 200;
  int64_t num_ids = 0;       // only the first ones are drawn; 0: all
  double temperature = 0.8;  // 0: always the likeliest token
  uint64_t seed = 1;
  /// Runs each forward pass; empty: as it is (Trainer::forward_pass()).
  std::function<void(const std::function<void()>&)> run_pass = {};
};

/// Continues a prompt with the model as it is laid out for training: forward
/// actions over the stages, logits split by vocabulary, no cache. Every rank
/// of the mesh must call and gets prompt and continuation; replicas all compute
/// the same. Once the text is longer than the model's positions, the model
/// sees its last ones.
std::vector<int64_t> generate(const RunConfig& config,
                              DeviceMesh& mesh,
                              Recorder& recorder,
                              const RankModel& rank_model,
                              const GenerateOptions& options);

}  // namespace triax
