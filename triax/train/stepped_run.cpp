// SPDX-License-Identifier: Apache-2.0
#include "triax/train/stepped_run.h"

#include <utility>

#include "triax/base/error.h"
#include "triax/comm/local.h"
#include "triax/model/piece_part.h"

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

std::string SteppedRun::when(const std::string& what) const {
  const int64_t step = trainer_.steps_done();
  return step == 0 ? "initial " + what
                   : what + " after step " + std::to_string(step);
}

TensorMap SteppedRun::weights() {
  if (!has_master_weights(config_.training.precision)) {
    return parameters();
  }
  GatheredTensors gathered;
  trainer_.with_whole_weights([&] {
    const auto masters = trainer_.trained().gather_masters();
    gathered = gather([&](const ParameterSlot& slot) {
      return masters.at(slot.layout.name);
    });
  });
  note_drift(gathered, when("master weights"));
  return std::move(gathered.tensors);
}

TensorMap SteppedRun::parameters() {
  GatheredTensors gathered;
  trainer_.with_whole_weights([&] { gathered = gather(weight_of); });
  note_drift(gathered, when("weights"));
  return std::move(gathered.tensors);
}

void SteppedRun::set_weights(const TensorMap& weights) {
  TRIAX_CHECK(mesh_.world().size() == 1 && trainer_.steps_done() == 0 &&
                  !has_master_weights(config_.training.precision),
              "one rank's fp32 or fp64 weights are set at its start");
  for (const ParameterSlot* slot : trainer_.rank_model().slots) {
    for (const Piece& piece : slot->layout.pieces) {
      stored_part(slot->tensor.detach(), piece)
          .copy_(logical_part(weights.at(piece.logical_name), piece));
    }
  }
}

RunStep SteppedRun::step() {
  RunStep record;
  GatheredTensors gathered;
  trainer_.on_gradients = [&] { gathered = gather(gradient_of); };
  const StepStats stats = trainer_.step();
  trainer_.on_gradients = nullptr;
  if (!stats.is_skipped) {  // NaN is not even equal to itself
    note_drift(gathered, "gradient of step " + std::to_string(stats.step));
  }
  record.loss = stats.loss;
  record.norm = stats.grad_norm;
  record.gradients = std::move(gathered.tensors);
  record.is_skipped = stats.is_skipped;
  if (stats.loss_scale != 1.0) {
    for (auto& [name, gradient] : record.gradients) {
      gradient.div_(stats.loss_scale);
    }
  }
  return record;
}

GatheredTensors SteppedRun::gather(const SlotTensor& which) {
  return gather_logical(config_, mesh_, trainer_.rank_model().slots, which);
}

void SteppedRun::note_drift(const GatheredTensors& gathered,
                            const std::string& where) {
  for (const Drift& drift : gathered.drifted) {
    if (seen_.insert(drift.name).second) {
      drifted_.push_back(to_text(drift) + ", first in the " + where);
    }
  }
}

LoneRun::LoneRun(const RunConfig& config)
    : board_(Board::create(1)),
      mesh_(ParallelDims{}, make_local_world(1, {.board = board_})->join(0)),
      run_(config, mesh_, board_) {}

}  // namespace triax
