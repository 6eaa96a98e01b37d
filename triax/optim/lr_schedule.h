// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triax/config/run_config.h"

namespace triax {

/// The learning rate of the update that follows `step` finished updates
/// (0-based: the run's first update is step 0, its last total_steps - 1).
///
/// With w = warmup_steps, m = min_lr and the convention of Hugging Face and
/// Megatron-LM (a schedule is a function of the updates already made):
///   step < w:  lr * step / w, so the first update of a warmed-up run has
///              rate 0 and only fills the moments;
///   then, with p = (step - w) / (total_steps - w), which stays below 1:
///   constant:  lr
///   linear:    m + (lr - m) * (1 - p)
///   cosine:    m + (lr - m) * (1 + cos(pi * p)) / 2
///   wsd:       lr until the last d steps, then
///              m + (lr - m) * (total_steps - step) / d,
///              d = decay_steps, or a tenth of all (at least 1) when 0;
///   step >= total_steps:  m (constant: lr).
///
/// Throws Error where the schedule cannot be what the user wrote: an unknown
/// name, warm-up and decay longer than the run, min_lr above lr, a negative
/// value.
double learning_rate(const OptimizerConfig& config,
                     int64_t total_steps,
                     int64_t step);

}  // namespace triax
