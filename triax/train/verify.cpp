// SPDX-License-Identifier: Apache-2.0
#include "triax/train/verify.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"
#include "triax/train/comparison.h"
#include "triax/train/stepped_run.h"

namespace triax {
namespace {

RunConfig without_warmup(RunConfig config) {
  config.optimizer.warmup_steps = 0;
  return config;
}

/// Returns when world rank 0 begins that step of the layout: it takes the runs
/// on one rank forward first. Not by an operation, which comm.deadline would
/// end: one rank may need far longer for a step than the layout.
void begin_step(Board& board, int rank, int64_t step) {
  while (rank != 0 && board.step(0) < step) {
    board.throw_if_failed();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  board.set_step(rank, step);
}

}  // namespace

bool VerifyReport::is_lost_in_rounding() const {
  return num_parameters > 0 && unproved.size() >= num_parameters;
}

bool VerifyReport::is_different() const {
  return !drifted.empty() || first || !loss.is_within() || !norm.is_within();
}

bool VerifyReport::is_equal() const {
  return dead.empty() && !is_different();
}

VerifyReport verify(const RunConfig& config,
                    DeviceMesh& mesh,
                    const std::shared_ptr<Board>& board,
                    const VerifyOptions& options) {
  const RunConfig tried = without_warmup(config);
  SteppedRun layout(tried, mesh, board, options.broken);
  std::optional<Comparison> comparison;
  TensorMap start = layout.weights();
  if (mesh.rank() == 0) {
    comparison.emplace(tried, std::move(start));
  }
  for (int64_t step = 1; step <= options.num_steps; ++step) {
    begin_step(*board, mesh.rank(), step);
    if (options.is_stop_requested &&
        max_over(mesh.world(), options.is_stop_requested() ? 1.0 : 0.0) > 0.0) {
      VerifyReport stopped;
      stopped.is_stopped = true;
      return stopped;
    }
    const RunStep mine = layout.step();
    if (comparison) {
      comparison->add(mine);
    }
  }
  // Waits for the first rank as a step does.
  begin_step(*board, mesh.rank(), options.num_steps + 1);
  const TensorMap end = layout.weights();
  const bool has_masters = has_master_weights(tried.training.precision);
  const TensorMap parameters = has_masters ? layout.parameters() : TensorMap{};
  if (!comparison) {
    return {};
  }
  if (options.broken != Break::kNone && !layout.has_broken()) {
    throw Error(
        "this break did nothing in these steps: it needs a gradient norm above "
        "training.gradient_clipping, or a token id that a batch does not use");
  }
  VerifyReport report = comparison->finish(end, has_masters ? parameters : end);
  report.plan = plan_name(tried.parallel);
  report.drifted = layout.drifted();
  return report;
}

}  // namespace triax
