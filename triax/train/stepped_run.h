// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "triax/check/breaks.h"
#include "triax/comm/board.h"
#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/train/gather.h"
#include "triax/train/trainer.h"

namespace triax {

/// What one step of a run leaves.
struct RunStep {
  double loss = 0;
  double norm = 0;
  TensorMap gradients;  // before clipping
};

/// A run that is taken forward a step at a time, and seen as logical tensors of
/// the stored dtype. Nothing of a step is kept here. Every rank of the mesh
/// must call each method but drifted(); tensors are empty, and nothing has
/// drifted, but on world rank 0.
class SteppedRun {
 public:
  /// The mesh must outlive the run.
  SteppedRun(const RunConfig& config,
             DeviceMesh& mesh,
             const std::shared_ptr<Board>& board,
             Break broken = Break::kNone);

  TensorMap weights();
  RunStep step();

  bool has_broken() const { return trainer_.has_broken(); }

  /// Copies that differed between ranks: a sentence for each logical parameter,
  /// with where that was seen first.
  const std::vector<std::string>& drifted() const { return drifted_; }

 private:
  TensorMap gather(const std::string& where, SlotTensor which);

  const RunConfig config_;
  DeviceMesh& mesh_;
  Recorder recorder_;
  Trainer trainer_;
  std::set<std::string> seen_;  // names of what has drifted
  std::vector<std::string> drifted_;
};

/// A run of one rank, in this process alone.
class LoneRun {
 public:
  explicit LoneRun(const RunConfig& config);
  SteppedRun& run() { return run_; }

 private:
  const std::shared_ptr<Board> board_;
  DeviceMesh mesh_;
  SteppedRun run_;
};

}  // namespace triax
