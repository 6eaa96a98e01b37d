// SPDX-License-Identifier: Apache-2.0
#include "triax/train/divergence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "triax/optim/gradient_noise.h"

namespace triax {

std::string divergence_advice(const RunConfig& config,
                              int64_t steps_done,
                              double lr) {
  std::vector<std::string> ways;
  if (steps_done == 0) {
    ways.push_back(fmt::format(
        "No update was made yet: lower model.initializer_range ({})",
        config.model.initializer_range));
  } else {
    ways.push_back(
        fmt::format("Lower optimizer.lr ({}, {:.2e} in the step before)",
                    config.optimizer.lr,
                    lr));
    if (steps_done > config.optimizer.warmup_steps) {
      ways.push_back(fmt::format("raise optimizer.warmup_steps ({})",
                                 config.optimizer.warmup_steps));
    }
    if (config.training.gradient_clipping == 0.0) {
      ways.push_back("set training.gradient_clipping (1.0 is usual)");
    }
  }
  if (config.training.precision == Precision::kBf16Autocast ||
      config.training.precision == Precision::kBf16) {
    ways.push_back("try training.precision = \"fp32\"");
  }
  return fmt::format("{}", fmt::join(ways, ", or "));
}

void LossRecord::add(double loss) {
  if (!std::isfinite(loss)) {
    return;
  }
  first_ = count_ == 0 ? loss : first_;
  lowest_ = count_ == 0 ? loss : std::min(lowest_, loss);
  last_ = loss;
  ++count_;
}

bool LossRecord::has_diverged() const {
  return count_ > 1 && last_ - lowest_ >= first_ - last_;
}

std::string batch_advice(double noise_scale,
                         double global_batch_size,
                         const LossRecord& losses) {
  if (!losses.has_diverged()) {
    return batch_size_advice(noise_scale, global_batch_size);
  }
  return fmt::format(
      "gradient noise scale {:.3g}; it says nothing of the batch size in a run "
      "whose loss did not stay below its first (first {:.4f}, last {:.4f})",
      noise_scale,
      losses.first(),
      losses.last());
}

}  // namespace triax
