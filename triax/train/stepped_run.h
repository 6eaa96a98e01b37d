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
  TensorMap gradients;      // before clipping, without the loss scale
  bool is_skipped = false;  // gradients overflowed fp16
};

/// A run that is taken forward a step at a time, and seen as logical tensors of
/// master_dtype(). Nothing of a step is kept here. Every rank of the mesh must
/// call each method but drifted(); tensors are empty, and nothing has drifted,
/// but on world rank 0.
class SteppedRun {
 public:
  /// The mesh must outlive the run.
  SteppedRun(const RunConfig& config,
             DeviceMesh& mesh,
             const std::shared_ptr<Board>& board,
             Break broken = Break::kNone);

  /// What is updated: the masters, where there are any.
  TensorMap weights();
  /// What forward reads.
  TensorMap parameters();
  /// Of one rank without masters, before its first step.
  void set_weights(const TensorMap& weights);
  RunStep step();

  bool has_broken() const { return trainer_.has_broken(); }

  /// Copies that differed between ranks: a sentence for each logical parameter,
  /// with where that was seen first.
  const std::vector<std::string>& drifted() const { return drifted_; }

 private:
  std::string when(const std::string& what) const;
  GatheredTensors gather(const SlotTensor& which);
  void note_drift(const GatheredTensors& gathered, const std::string& where);

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
