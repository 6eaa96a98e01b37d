// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/config/fields.h"

namespace triax {
namespace {

// The multiples of `unit` around `batch`, with the microbatches they mean.
std::string nearest_batches(int64_t batch, int64_t unit) {
  const int64_t below = batch / unit * unit;
  const auto described = [unit](int64_t value) {
    const int64_t count = value / unit;
    return fmt::format("{} ({})", value, counted(count, "microbatch"));
  };
  return below > 0 ? described(below) + " or " + described(below + unit)
                   : described(unit);
}

void check_batch_bound(Findings& findings) {
  const int64_t batch = findings.config.training.global_batch_size;
  if (batch > kMaxBatchSize) {
    findings.error(
        "out-of-range",
        "training.microbatch_size",
        fmt::format("{} sequences a step are more than {}{}",
                    batch,
                    kMaxBatchSize,
                    findings.derivation("training.global_batch_size")),
        "use a smaller one");
  }
}

void check_triangle(Findings& findings) {
  const TrainingConfig& training = findings.config.training;
  const int64_t dp = findings.config.parallel.dp;
  const int64_t batch = training.global_batch_size;
  const int64_t unit = training.microbatch_size * dp;
  const int64_t steps = training.gradient_accumulation_steps;
  const std::string key = "training.global_batch_size";
  const std::string why = findings.derivation("parallel.dp");
  if (steps > 0 && unit * steps != batch) {
    findings.error("batch-triangle",
                   key,
                   fmt::format("microbatch_size {} * "
                               "gradient_accumulation_steps {} * dp {} = {}, "
                               "not {}{}",
                               training.microbatch_size,
                               steps,
                               dp,
                               unit * steps,
                               batch,
                               why),
                   batch % unit == 0
                       ? fmt::format("leave one out, or use "
                                     "gradient_accumulation_steps = {}",
                                     batch / unit)
                       : "use " + nearest_batches(batch, unit));
  } else if (batch % unit != 0) {
    findings.error("batch-triangle",
                   key,
                   fmt::format("{} is not a multiple of microbatch_size {} * "
                               "dp {} = {}{}",
                               batch,
                               training.microbatch_size,
                               dp,
                               unit,
                               why),
                   "use " + nearest_batches(batch, unit));
  }
}

void check_bubble(Findings& findings) {
  const TrainingConfig& training = findings.config.training;
  const int64_t pp = findings.config.parallel.pp;
  const int64_t count =
      training.global_batch_size /
      (training.microbatch_size * findings.config.parallel.dp);
  if (count < 1 || count >= pp) {
    return;
  }
  const double share =
      100.0 * static_cast<double>(pp - 1) / static_cast<double>(count + pp - 1);
  findings.warning(
      "few-microbatches",
      "parallel.pp",
      fmt::format("with {} in {} stages, {:.0f} % of a step is "
                  "bubble: (pp - 1) / (microbatches + pp - 1)",
                  counted(count, "microbatch"),
                  pp,
                  share),
      fmt::format("use at least {} microbatches (a smaller microbatch_size or "
                  "a larger global_batch_size), or fewer stages",
                  4 * pp));
}

void check_steps(Findings& findings) {
  const OptimizerConfig& optimizer = findings.config.optimizer;
  const int64_t steps = findings.config.training.steps;
  const std::string key = "optimizer.warmup_steps";
  const int64_t decay = optimizer.decay_steps > 0
                            ? optimizer.decay_steps
                            : std::max<int64_t>(steps / 10, 1);
  if (optimizer.warmup_steps > steps) {
    findings.error("warmup-steps",
                   key,
                   fmt::format("{} of warm-up in a run of {}: lr is never "
                               "reached",
                               counted(optimizer.warmup_steps, "step"),
                               steps),
                   fmt::format("use fewer than {}", steps));
  } else if (optimizer.warmup_steps == steps) {
    findings.warning("warmup-steps",
                     key,
                     fmt::format("{} of warm-up in a run of {}: lr never "
                                 "falls",
                                 counted(optimizer.warmup_steps, "step"),
                                 steps),
                     fmt::format("use fewer than {}", steps));
  } else if (optimizer.schedule == "wsd" &&
             optimizer.warmup_steps + decay > steps) {
    findings.error(
        "warmup-steps",
        "optimizer.decay_steps",
        fmt::format("warmup_steps {} + decay_steps {} is above "
                    "steps {}",
                    optimizer.warmup_steps,
                    decay,
                    steps),
        fmt::format("use at most {}", steps - optimizer.warmup_steps));
  }
}

void check_rates(Findings& findings) {
  const OptimizerConfig& optimizer = findings.config.optimizer;
  if (optimizer.min_lr > optimizer.lr) {
    findings.error(
        "lr-order",
        "optimizer.min_lr",
        fmt::format("min_lr {} is above lr {}", optimizer.min_lr, optimizer.lr),
        fmt::format("use at most {}", optimizer.lr));
  }
  // "3e4" for 3e-4.
  if (optimizer.name == "adamw" && optimizer.lr >= 1.0) {
    findings.warning(
        "out-of-range",
        "optimizer.lr",
        fmt::format("Adam moves each weight by about {:g} in every step, where "
                    "weights are a few hundredths",
                    optimizer.lr),
        "use 1e-3 or less: is the exponent's sign missing?");
  }
  const bool has_group_lr = std::any_of(
      optimizer.group.begin(), optimizer.group.end(), [](const auto& group) {
        return group.lr.has_value();
      });
  if (has_group_lr && optimizer.lr == 0.0) {
    findings.error("lr-order",
                   "optimizer.lr",
                   "a group's lr follows the schedule of optimizer.lr, which "
                   "is 0",
                   "use an optimizer.lr above 0");
  }
  const bool is_off = findings.config.training.gradient_clipping == 0.0;
  if (is_off && findings.is_set("training.gradient_clipping")) {
    findings.note("clipping-off",
                  "training.gradient_clipping",
                  "0 turns clipping off",
                  "");
  }
}

void check_loss_scale(Findings& findings) {
  const TrainingConfig& training = findings.config.training;
  if (training.precision == Precision::kFp16 &&
      training.min_loss_scale > training.initial_loss_scale) {
    findings.error("loss-scale-order",
                   "training.min_loss_scale",
                   fmt::format("min_loss_scale {} is above "
                               "initial_loss_scale {}",
                               training.min_loss_scale,
                               training.initial_loss_scale),
                   fmt::format("use at most {}", training.initial_loss_scale));
  }
}

/// "65536", "0.5": the powers of two beside a number.
std::string powers_beside(double number) {
  const double below = std::exp2(std::floor(std::log2(number)));
  return fmt::format("{} or {}", below, 2 * below);
}

/// Scaling and unscaling round nothing with powers of two alone; the scale is
/// halved until it is at its minimum, and that is next.
void check_loss_scale_powers(Findings& findings) {
  const TrainingConfig& training = findings.config.training;
  if (training.precision != Precision::kFp16) {
    return;
  }
  const auto check = [&](const char* key, double value) {
    int exponent = 0;
    if (std::frexp(value, &exponent) != 0.5) {
      findings.error("loss-scale-power",
                     key,
                     fmt::format("{} is no power of two, so gradients would be "
                                 "rounded once more, by scaling and unscaling",
                                 value),
                     fmt::format("use {}", powers_beside(value)));
    }
  };
  check("training.initial_loss_scale", training.initial_loss_scale);
  check("training.min_loss_scale", training.min_loss_scale);
}

void check_fp16(Findings& findings) {
  const RunConfig& config = findings.config;
  const bool is_fp16 = config.training.precision == Precision::kFp16;
  if (is_fp16) {
    findings.note("slow-choice",
                  "training.precision",
                  "a CPU multiplies fp16 many times slower than bf16 or fp32",
                  "use \"bf16\", which takes the same memory and needs no "
                  "loss scale");
  }
  if (!is_fp16 && config.parallel.dp > 1 &&
      config.parallel.reduce_dtype == ReduceDtype::kFp16) {
    findings.warning(
        "reduce-dtype-range",
        "parallel.reduce_dtype",
        "in fp16 gradients below 6e-8 vanish and above 65504 overflow, and "
        "only training.precision = \"fp16\" has a loss scale that keeps them "
        "between",
        "use \"bf16\", whose range is that of fp32");
  }
}

}  // namespace

void check_batch(Findings& findings) {
  check_batch_bound(findings);
  check_triangle(findings);
  check_bubble(findings);
}

void check_training(Findings& findings) {
  check_steps(findings);
  check_rates(findings);
  check_loss_scale(findings);
  check_loss_scale_powers(findings);
  check_fp16(findings);
}

}  // namespace triax
