// SPDX-License-Identifier: Apache-2.0
#include "triax/train/verify.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "triax/base/error.h"
#include "triax/base/json.h"
#include "triax/comm/local.h"
#include "triax/plan/logical_parameters.h"
#include "triax/train/gather.h"
#include "triax/train/trainer.h"

namespace triax {
namespace {

constexpr double kFp64Bound = 1e-9;
constexpr double kNoiseFactor = 4.0;

/// What one run of a few steps leaves.
struct Trajectory {
  std::vector<double> losses;
  std::vector<double> norms;
  double lr_sum = 0;
  LogicalTensors start;
  LogicalTensors gradients;  // of the first step
  LogicalTensors end;
};

RunConfig without_warmup(RunConfig config) {
  config.optimizer.warmup_steps = 0;
  return config;
}

RunConfig one_rank_config(RunConfig config, int64_t microbatch_size) {
  config.parallel.tp = 1;
  config.parallel.pp = 1;
  config.parallel.dp = 1;
  config.parallel.stages.clear();
  config.training.microbatch_size = microbatch_size;
  return config;
}

/// Another microbatch size that divides the global batch: the least other one.
std::optional<int64_t> other_microbatch_size(const RunConfig& config) {
  for (int64_t size = 1; size <= config.training.global_batch_size; ++size) {
    if (config.training.global_batch_size % size == 0 &&
        size != config.training.microbatch_size) {
      return size;
    }
  }
  return std::nullopt;
}

/// Runs on one rank that round otherwise than that of `config`.
std::vector<RunConfig> noise_configs(const RunConfig& config) {
  std::vector<RunConfig> configs;
  const Precision precision = config.training.precision;
  if (precision == Precision::kFp64) {
    return configs;
  }
  if (const auto size = other_microbatch_size(config)) {
    configs.push_back(one_rank_config(config, *size));
  }
  // The rows of a product round alike in every microbatch, but not where its
  // terms are added up in parts: that noise is seen against a wider type.
  configs.push_back(one_rank_config(config, config.training.microbatch_size));
  configs.back().training.precision =
      precision == Precision::kFp32 ? Precision::kFp64 : Precision::kFp32;
  return configs;
}

Trajectory record_steps(const RunConfig& config,
                        DeviceMesh& mesh,
                        const std::shared_ptr<Board>& board,
                        const VerifyOptions& options) {
  Recorder recorder(board, mesh.rank());
  Trainer trainer(
      config,
      mesh,
      recorder,
      {.broken = options.broken, .on_failure = [&](const std::string& text) {
         board->fail(mesh.rank(), text);
       }});
  const auto gather = [&](SlotTensor which) {
    return gather_logical(config, mesh, trainer.rank_model().slots, which);
  };
  Trajectory trajectory;
  trajectory.start = gather(weight_of);
  trainer.on_gradients = [&] {
    if (trainer.steps_done() == 0) {
      trajectory.gradients = gather(gradient_of);
    }
  };
  for (int64_t step = 0; step < options.num_steps; ++step) {
    const StepStats stats = trainer.step();
    trajectory.losses.push_back(stats.loss);
    trajectory.norms.push_back(stats.grad_norm);
    trajectory.lr_sum += stats.lr;
  }
  trajectory.end = gather(weight_of);
  return trajectory;
}

Trajectory record_alone(const RunConfig& config, int64_t num_steps) {
  const std::shared_ptr<Board> board = Board::create(1);
  const auto world = make_local_world(1, {.board = board});
  DeviceMesh mesh(ParallelDims{}, world->join(0));
  return record_steps(config, mesh, board, {.num_steps = num_steps});
}

double norm_of(const at::Tensor& tensor) {
  return tensor.norm().item<double>();
}

double relative(double a, double b) {
  const double difference = std::abs(a - b);
  return std::isfinite(difference) ? difference / std::max(std::abs(b), 1e-12)
                                   : std::numeric_limits<double>::infinity();
}

double worst_relative(const std::vector<double>& a,
                      const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, relative(a[i], b[i]));
  }
  return worst;
}

double rms_of(const LogicalTensors& gradients) {
  double squares = 0;
  double numel = 0;
  for (const auto& [name, tensor] : gradients.tensors) {
    squares += std::pow(norm_of(tensor), 2);
    numel += static_cast<double>(tensor.numel());
  }
  return std::sqrt(squares / std::max(numel, 1.0));
}

/// Compares runs against one of them, tensor by tensor.
class Comparison {
 public:
  Comparison(const Trajectory& reference, double tiny_gradient)
      : reference_(reference),
        gradient_rms_(rms_of(reference.gradients)),
        tiny_gradient_(tiny_gradient) {}

  double gradient_distance(const Trajectory& run,
                           const std::string& name) const {
    const at::Tensor& a = run.gradients.tensors.at(name);
    const at::Tensor& b = reference_.gradients.tensors.at(name);
    const double floor = 1e-3 * gradient_rms_ * root_numel(b);
    return divide(norm_of(a - b), std::max(norm_of(b), floor));
  }

  double weight_distance(const Trajectory& run, const std::string& name) const {
    const at::Tensor a = update_of(run, name);
    const at::Tensor b = update_of(reference_, name);
    const double floor = 1e-2 * reference_.lr_sum * root_numel(b);
    return divide(norm_of(a - b), std::max(norm_of(b), floor));
  }

  /// What rounding a weight to `epsilon` once a step makes of its update.
  double rounding_of_update(const std::string& name,
                            double epsilon,
                            size_t num_steps) const {
    const at::Tensor update = update_of(reference_, name);
    const double floor = 1e-2 * reference_.lr_sum * root_numel(update);
    const double rounding = epsilon * static_cast<double>(num_steps) *
                            norm_of(reference_.end.tensors.at(name));
    return divide(rounding, std::max(norm_of(update), floor));
  }

  /// The change since the start, where there is a gradient to speak of.
  at::Tensor update_of(const Trajectory& run, const std::string& name) const {
    const at::Tensor update =
        run.end.tensors.at(name) - run.start.tensors.at(name);
    const at::Tensor& gradient = reference_.gradients.tensors.at(name);
    const at::Tensor counts = gradient.abs() > tiny_gradient_ * gradient_rms_;
    return at::where(counts, update, at::zeros_like(update));
  }

 private:
  static double root_numel(const at::Tensor& tensor) {
    return std::sqrt(static_cast<double>(tensor.numel()));
  }
  static double divide(double difference, double scale) {
    if (!std::isfinite(difference)) {
      return std::numeric_limits<double>::infinity();
    }
    return difference == 0 ? 0 : difference / scale;
  }

  const Trajectory& reference_;
  const double gradient_rms_;
  const double tiny_gradient_;
};

/// Distances below these are rounding, however equal two runs happen to be.
double rounding_floor(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return kFp64Bound;
    case Precision::kFp32:
      return 1e-5;
    case Precision::kBf16Autocast:
      return 2e-2;
  }
  return 0;
}

double tiny_gradient(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return 1e-10;
    case Precision::kFp32:
      return 1e-3;
    case Precision::kBf16Autocast:
      return 1e-1;
  }
  return 0;
}

std::string precision_name(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return "fp64";
    case Precision::kFp32:
      return "fp32";
    case Precision::kBf16Autocast:
      return "bf16_autocast";
  }
  return "?";
}

FirstDifference first_difference(const std::string& what,
                                 const std::string& name,
                                 const at::Tensor& layout,
                                 const at::Tensor& one_rank,
                                 const Distance& distance) {
  FirstDifference first{.name = what + " of " + name,
                        .distance = distance.distance,
                        .bound = distance.bound};
  const at::Tensor difference = (layout - one_rank).abs().reshape({-1});
  int64_t flat = difference.argmax().item<int64_t>();
  first.layout_value = layout.reshape({-1})[flat].item<double>();
  first.one_rank_value = one_rank.reshape({-1})[flat].item<double>();
  for (int64_t dim = layout.dim() - 1; dim >= 0; --dim) {
    first.index.insert(first.index.begin(), flat % layout.size(dim));
    flat /= layout.size(dim);
  }
  return first;
}

/// Fills in everything that is compared tensor by tensor.
class ReportBuilder {
 public:
  ReportBuilder(const RunConfig& config,
                const Trajectory& layout,
                const Trajectory& one_rank,
                const std::vector<Trajectory>& noise)
      : config_(config),
        layout_(layout),
        one_rank_(one_rank),
        noise_(noise),
        comparison_(one_rank, tiny_gradient(config.training.precision)) {}

  VerifyReport build() {
    const Precision precision = config_.training.precision;
    report_.precision = precision_name(precision);
    report_.losses = layout_.losses;
    report_.one_rank_losses = one_rank_.losses;
    report_.norms = layout_.norms;
    report_.one_rank_norms = one_rank_.norms;
    report_.loss = scalar("loss", &Trajectory::losses);
    report_.norm = scalar("gradient norm", &Trajectory::norms);
    const auto parameters = logical_parameters(config_.model);
    for (const LogicalParameter& parameter : parameters) {
      compare_gradient(parameter.name);
    }
    for (const LogicalParameter& parameter : parameters) {
      compare_weight(parameter.name);
    }
    for (const LogicalTensors* tensors :
         {&layout_.start, &layout_.gradients, &layout_.end}) {
      report_.drifted.insert(report_.drifted.end(),
                             tensors->drifted.begin(),
                             tensors->drifted.end());
    }
    report_.dead = find_death();
    return report_;
  }

 private:
  Distance scalar(const std::string& what,
                  std::vector<double> Trajectory::*values) const {
    return {what,
            worst_relative(layout_.*values, one_rank_.*values),
            bound([&](const Trajectory& noise) {
              return worst_relative(noise.*values, one_rank_.*values);
            })};
  }

  template <class DistanceOf>
  double bound(const DistanceOf& distance_of) const {
    double worst = rounding_floor(config_.training.precision);
    for (const Trajectory& noise : noise_) {
      worst = std::max(worst, kNoiseFactor * distance_of(noise));
    }
    return worst;
  }

  void compare_gradient(const std::string& name) {
    const Distance distance{name,
                            comparison_.gradient_distance(layout_, name),
                            bound([&](const Trajectory& noise) {
                              return comparison_.gradient_distance(noise, name);
                            })};
    keep_worst(report_.gradients, distance);
    if (!distance.is_within() && !report_.first) {
      report_.first = first_difference("gradient",
                                       name,
                                       layout_.gradients.tensors.at(name),
                                       one_rank_.gradients.tensors.at(name),
                                       distance);
    }
  }

  void compare_weight(const std::string& name) {
    const Distance distance{name,
                            comparison_.weight_distance(layout_, name),
                            std::max(bound([&](const Trajectory& noise) {
                                       return comparison_.weight_distance(noise,
                                                                          name);
                                     }),
                                     weight_rounding(name))};
    keep_worst(report_.weights, distance);
    if (!distance.is_within() && !report_.first) {
      report_.first = first_difference("update",
                                       name,
                                       comparison_.update_of(layout_, name),
                                       comparison_.update_of(one_rank_, name),
                                       distance);
    }
  }

  double weight_rounding(const std::string& name) const {
    const bool is_fp64 = config_.training.precision == Precision::kFp64;
    return is_fp64 ? 0
                   : comparison_.rounding_of_update(
                         name,
                         std::numeric_limits<float>::epsilon(),
                         one_rank_.losses.size());
  }

  /// Worst against its own bound.
  static void keep_worst(Distance& worst, const Distance& distance) {
    const auto excess = [](const Distance& d) {
      return d.bound > 0 ? d.distance / d.bound : 0.0;
    };
    if (worst.what.empty() || excess(distance) > excess(worst)) {
      worst = distance;
    }
  }

  std::string find_death() const {
    const double uniform =
        std::log(static_cast<double>(config_.model.vocab_size));
    bool is_uniform = true;
    bool has_gradient = false;
    for (size_t i = 0; i < one_rank_.losses.size(); ++i) {
      is_uniform &= relative(one_rank_.losses[i], uniform) < 1e-12;
      has_gradient |= one_rank_.norms[i] > 0;
    }
    if (!has_gradient) {
      return "the gradient is zero in every step";
    }
    return is_uniform ? "the loss is exactly ln(vocab_size) in every step" : "";
  }

  const RunConfig& config_;
  const Trajectory& layout_;
  const Trajectory& one_rank_;
  const std::vector<Trajectory>& noise_;
  const Comparison comparison_;
  VerifyReport report_;
};

}  // namespace

bool VerifyReport::is_equal() const {
  return dead.empty() && drifted.empty() && !first && loss.is_within() &&
         norm.is_within();
}

VerifyReport verify(const RunConfig& config,
                    DeviceMesh& mesh,
                    const std::shared_ptr<Board>& board,
                    const VerifyOptions& options) {
  const RunConfig tried = without_warmup(config);
  const Trajectory layout = record_steps(tried, mesh, board, options);
  if (mesh.rank() != 0) {
    return {};
  }
  const int64_t size = tried.training.microbatch_size;
  const Trajectory one_rank =
      record_alone(one_rank_config(tried, size), options.num_steps);
  std::vector<Trajectory> noise;
  for (const RunConfig& other : noise_configs(tried)) {
    noise.push_back(record_alone(other, options.num_steps));
  }
  VerifyReport report = ReportBuilder(tried, layout, one_rank, noise).build();
  report.plan = mesh.dims().name();
  report.num_steps = options.num_steps;
  return report;
}

}  // namespace triax
