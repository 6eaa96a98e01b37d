// SPDX-License-Identifier: Apache-2.0
#include "triax/train/stepped_run.h"

#include <utility>

#include "triax/comm/local.h"

namespace triax {

SteppedRun::SteppedRun(const RunConfig& config,
                       DeviceMesh& mesh,
                       const std::shared_ptr<Board>& board,
                       Break broken)
    : config_(config),
      mesh_(mesh),
      recorder_(board, mesh.rank()),
      trainer_(config,
               mesh,
               recorder_,
               {.broken = broken,
                .on_failure =
                    [board, rank = mesh.rank()](const std::exception& error) {
                      board->fail(rank, error.what());
                    }}) {}

TensorMap SteppedRun::weights() {
  const int64_t step = trainer_.steps_done();
  const std::string where = step == 0
                                ? "initial weights"
                                : "weights after step " + std::to_string(step);
  TensorMap weights;
  trainer_.with_whole_weights([&] { weights = gather(where, weight_of); });
  return weights;
}

RunStep SteppedRun::step() {
  RunStep record;
  const std::string where =
      "gradient of step " + std::to_string(trainer_.steps_done() + 1);
  trainer_.on_gradients = [&] {
    record.gradients = gather(where, gradient_of);
  };
  const StepStats stats = trainer_.step();
  trainer_.on_gradients = nullptr;
  record.loss = stats.loss;
  record.norm = stats.grad_norm;
  return record;
}

TensorMap SteppedRun::gather(const std::string& where, SlotTensor which) {
  GatheredTensors gathered =
      gather_logical(config_, mesh_, trainer_.rank_model().slots, which);
  for (const Drift& drift : gathered.drifted) {
    if (seen_.insert(drift.name).second) {
      drifted_.push_back(to_text(drift) + ", first in the " + where);
    }
  }
  return std::move(gathered.tensors);
}

LoneRun::LoneRun(const RunConfig& config)
    : board_(Board::create(1)),
      mesh_(ParallelDims{}, make_local_world(1, {.board = board_})->join(0)),
      run_(config, mesh_, board_) {}

}  // namespace triax
