// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "triax/base/error.h"

namespace triax {
namespace {

int64_t wsd_decay_steps(const OptimizerConfig& config, int64_t total_steps) {
  if (config.decay_steps > 0) {
    return config.decay_steps;
  }
  return std::max<int64_t>(1, total_steps / 10);
}

void check_rates(const OptimizerConfig& config) {
  if (!(config.lr >= 0.0) || !(config.min_lr >= 0.0)) {
    throw Error("optimizer.lr (",
                config.lr,
                ") and optimizer.min_lr (",
                config.min_lr,
                ") must not be negative");
  }
  if (config.min_lr > config.lr) {
    throw Error("optimizer.min_lr (",
                config.min_lr,
                ") must not be above optimizer.lr (",
                config.lr,
                "); the schedule goes down from lr to min_lr");
  }
}

void check_lengths(const OptimizerConfig& config, int64_t total_steps) {
  const int64_t warmup = config.warmup_steps;
  if (warmup < 0 || config.decay_steps < 0) {
    throw Error(
        "optimizer.warmup_steps and optimizer.decay_steps must not be "
        "negative");
  }
  if (warmup > total_steps) {
    throw Error("optimizer.warmup_steps (",
                warmup,
                ") must not exceed training.steps (",
                total_steps,
                "); lr would never be reached");
  }
  if (config.schedule != "wsd") {
    return;
  }
  const int64_t decay = wsd_decay_steps(config, total_steps);
  if (warmup + decay > total_steps) {
    throw Error("optimizer.warmup_steps (",
                warmup,
                ") plus the decay of the wsd schedule (",
                decay,
                ") must not exceed training.steps (",
                total_steps,
                "); lower one or set optimizer.decay_steps");
  }
}

}  // namespace

double learning_rate(const OptimizerConfig& config,
                     int64_t total_steps,
                     int64_t step) {
  TRIAX_CHECK(step >= 0 && total_steps >= 0, "step ", step);
  check_rates(config);
  check_lengths(config, total_steps);
  const int64_t warmup = config.warmup_steps;
  const double span = config.lr - config.min_lr;
  const bool is_over = step >= total_steps;
  const double progress = is_over
                              ? 1.0
                              : static_cast<double>(step - warmup) /
                                    static_cast<double>(total_steps - warmup);
  double share = 0.0;  // of the way from min_lr up to lr
  if (config.schedule == "constant") {
    share = 1.0;
  } else if (config.schedule == "linear") {
    share = 1.0 - progress;
  } else if (config.schedule == "cosine") {
    share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  } else if (config.schedule == "wsd") {
    const double decay =
        static_cast<double>(wsd_decay_steps(config, total_steps));
    const double left = is_over ? 0.0 : static_cast<double>(total_steps - step);
    share = std::min(1.0, left / decay);
  } else {
    throw Error(
        "optimizer.schedule must be constant, cosine, linear or wsd, "
        "not \"",
        config.schedule,
        "\"");
  }
  if (step < warmup && !is_over) {
    return config.lr * static_cast<double>(step) / static_cast<double>(warmup);
  }
  return config.min_lr + span * share;
}

}  // namespace triax
