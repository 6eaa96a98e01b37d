// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "triax/comm/board.h"
#include "triax/comm/group.h"
#include "triax/config/run_config.h"
#include "triax/train/trainer.h"

namespace triax {

struct SessionOptions {
  /// Where metrics.jsonl goes; must exist.
  std::string run_dir;
  bool is_quiet = false;
  /// Called on every rank after each step.
  std::function<void(Trainer&)> on_step = {};
};

/// Trains a whole run on this rank: the body of `triax train`. Every rank of
/// `world` must call. Returns the exit code: 0, or 130 when stop_requested() on
/// any rank ended all of them early.
int run_training(const RunConfig& config,
                 const std::shared_ptr<Board>& board,
                 std::unique_ptr<Group> world,
                 const SessionOptions& options);

struct VerifySessionOptions {
  int64_t num_steps = 3;
  std::string break_name;  // empty: none
  bool is_json = false;
};

/// The body of `triax verify`: prints the report on world rank 0. Returns 0
/// when equal, 1 when different (on world rank 0; 0 elsewhere).
int run_verify(const RunConfig& config,
               const std::shared_ptr<Board>& board,
               std::unique_ptr<Group> world,
               const VerifySessionOptions& options);

}  // namespace triax
