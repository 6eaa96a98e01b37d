// SPDX-License-Identifier: Apache-2.0
#include "triax/train/verify.h"

#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "triax/plan/logical_parameters.h"
#include "triax/train/replay.h"
#include "triax/train/trajectory.h"

namespace triax {
namespace {

constexpr double kFp64Bound = 1e-9;
constexpr double kNoiseFactor = 4.0;
/// Of the rms of all gradients: what counts as none in fp64.
constexpr double kTinyGradient = 1e-10;
/// A bound above this says nothing: a tensor of zeros has distance 1.
constexpr double kProofless = 0.5;
/// Tensors of one norm lie no farther apart.
constexpr double kOpposite = 2.0;

/// After an update bounds are wider by this. AdamW divides a gradient below its
/// eps (1e-8) by it: a rounding of 1e-15 moves the weight by 1e-7 of lr. And it
/// turns a gradient that is all rounding into a full step of either sign.
double after_update(Precision precision) {
  return precision == Precision::kFp64 ? 1e3 : 4.0;
}

RunConfig without_warmup(RunConfig config) {
  config.optimizer.warmup_steps = 0;
  return config;
}

double norm_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

double distance_between(const at::Tensor& a, const at::Tensor& b) {
  return norm_of(a.to(at::kDouble) - b.to(at::kDouble));
}

double root_numel(const at::Tensor& tensor) {
  return std::sqrt(static_cast<double>(tensor.numel()));
}

double divide(double difference, double scale) {
  if (!std::isfinite(difference)) {
    return std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : difference / scale;
}

double relative(double a, double b) {
  return divide(std::abs(a - b), std::max(std::abs(b), 1e-12));
}

double rms_of(const TensorMap& gradients) {
  double squares = 0;
  double numel = 0;
  for (const auto& [name, tensor] : gradients) {
    squares += std::pow(norm_of(tensor), 2);
    numel += static_cast<double>(tensor.numel());
  }
  return std::sqrt(squares / std::max(numel, 1.0));
}

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

/// The same for loss and norm, which are sums over many elements.
double scalar_floor(Precision precision) {
  return precision == Precision::kBf16Autocast ? 5e-3
                                               : rounding_floor(precision);
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

using Distances = std::map<std::string, double>;  // by logical name

/// What that share of them stays below.
double quantile(const Distances& distances, double share) {
  std::vector<double> values;
  for (const auto& [name, distance] : distances) {
    values.push_back(distance);
  }
  if (values.empty()) {
    return 0;
  }
  const auto found =
      values.begin() +
      static_cast<int64_t>(static_cast<double>(values.size()) * share);
  std::nth_element(values.begin(), found, values.end());
  return *found;
}

/// The run on one rank, and how far others lie from it.
class OneRank {
 public:
  explicit OneRank(Trajectory run) : run_(std::move(run)) {
    for (const TensorMap& gradients : run_.gradients) {
      gradient_rms_.push_back(rms_of(gradients));
    }
  }

  const Trajectory& run() const { return run_; }
  double gradient_rms(size_t step) const { return gradient_rms_[step]; }

  double gradient_distance(const Trajectory& other,
                           size_t step,
                           const std::string& name) const {
    const at::Tensor& a = other.gradients[step].at(name);
    const at::Tensor& b = run_.gradients[step].at(name);
    const double floor = 1e-3 * gradient_rms_[step] * root_numel(b);
    return divide(distance_between(a, b), std::max(norm_of(b), floor));
  }

 private:
  const Trajectory run_;
  std::vector<double> gradient_rms_;
};

/// How far runs that only round otherwise lie from one rank's.
class Noise {
 public:
  Noise(const OneRank& one_rank, Precision precision)
      : one_rank_(one_rank),
        floor_(rounding_floor(precision)),
        scalar_floor_(scalar_floor(precision)),
        after_update_(after_update(precision)),
        loss_(one_rank.run().losses.size()),
        norm_(one_rank.run().losses.size()),
        gradients_(one_rank.run().losses.size()),
        typical_(one_rank.run().losses.size()),
        usual_(one_rank.run().losses.size()) {}

  void add(const Trajectory& run) {
    add_scalar(loss_, run.losses, reference().losses);
    add_scalar(norm_, run.norms, reference().norms);
    Distances farthest;  // of this run, so far
    for (size_t step = 0; step < gradients_.size(); ++step) {
      for (const auto& [name, gradient] : reference().gradients[step]) {
        double& so_far = farthest[name];
        so_far = std::max(so_far, one_rank_.gradient_distance(run, step, name));
        double& noise = gradients_[step][name];
        noise = std::max(noise, so_far);
      }
      typical_[step] = quantile(gradients_[step], 0.5);
      usual_[step] = quantile(gradients_[step], 0.9);
    }
  }

  double loss_bound(size_t step) const {
    return bound(step, loss_[step], scalar_floor_);
  }
  /// A sum lies no closer than its parts.
  double norm_bound(size_t step) const {
    return bound(step, std::max(norm_[step], typical_[step]), scalar_floor_);
  }
  double gradient_bound(size_t step, const std::string& name) const {
    const Distances& noise = gradients_[step];
    const auto found = noise.find(name);
    return bound(
        step,
        found == noise.end() ? 0.0 : std::max(found->second, usual_[step]),
        floor_);
  }

 private:
  const Trajectory& reference() const { return one_rank_.run(); }
  double bound(size_t step, double noise, double floor) const {
    return (step == 0 ? 1.0 : after_update_) *
           std::max(floor, kNoiseFactor * noise);
  }
  static void add_scalar(std::vector<double>& noise,
                         const std::vector<double>& a,
                         const std::vector<double>& b) {
    double farthest = 0;  // so far
    for (size_t step = 0; step < noise.size(); ++step) {
      farthest = std::max(farthest, relative(a[step], b[step]));
      noise[step] = std::max(noise[step], farthest);
    }
  }

  const OneRank& one_rank_;
  const double floor_;
  const double scalar_floor_;
  const double after_update_;
  // By step.
  std::vector<double> loss_;
  std::vector<double> norm_;
  std::vector<Distances> gradients_;
  std::vector<double> typical_;  // half of the gradients stay below
  std::vector<double> usual_;    // nine of ten do
};

/// Fills in everything that is compared tensor by tensor.
class ReportBuilder {
 public:
  ReportBuilder(const RunConfig& config,
                const Trajectory& layout,
                const OneRank& one_rank,
                const Noise& noise)
      : config_(config),
        layout_(layout),
        one_rank_(one_rank),
        noise_(noise),
        replayed_(replay_optimizer(config, layout.start, layout.gradients)) {}

  VerifyReport build() {
    const Trajectory& alone = one_rank_.run();
    report_.precision = precision_name(config_.training.precision);
    report_.losses = layout_.losses;
    report_.one_rank_losses = alone.losses;
    report_.norms = layout_.norms;
    report_.one_rank_norms = alone.norms;
    for (size_t step = 0; step < alone.losses.size(); ++step) {
      keep_worst(report_.loss,
                 {"loss",
                  relative(layout_.losses[step], alone.losses[step]),
                  noise_.loss_bound(step)});
      keep_worst(report_.norm,
                 {"gradient norm",
                  relative(layout_.norms[step], alone.norms[step]),
                  noise_.norm_bound(step)});
      keep_worst(
          report_.norm,
          {"of the gradients themselves",
           relative(layout_.norms[step], replayed_.norms[step]),
           config_.training.precision == Precision::kFp64 ? kFp64Bound : 1e-6});
    }
    report_.drifted = layout_.drifted;
    compare_tensors();
    report_.num_weak_later = weak_later_.size();
    report_.dead = find_death();
    return report_;
  }

 private:
  void compare_tensors() {
    const auto parameters = logical_parameters(config_.model);
    for (const LogicalParameter& parameter : parameters) {
      compare_start(parameter.name);
      const at::Tensor& gradient =
          one_rank_.run().gradients[0].at(parameter.name);
      report_.num_parameters += norm_of(gradient) > 0;
    }
    for (size_t step = 0; step < layout_.gradients.size(); ++step) {
      for (const LogicalParameter& parameter : parameters) {
        compare_gradient(step, parameter.name);
      }
    }
    for (const LogicalParameter& parameter : parameters) {
      const std::string& name = parameter.name;
      compare_update(name, replayed_.weights, layout_.start, {});
      if (config_.training.precision == Precision::kFp64) {
        const Trajectory& alone = one_rank_.run();
        compare_update(name, alone.end, alone.start, has_gradient(name));
      }
    }
  }

  /// Both draw them by (seed, name, element).
  void compare_start(const std::string& name) {
    const at::Tensor& mine = layout_.start.at(name);
    const at::Tensor& expected = one_rank_.run().start.at(name);
    if (!mine.equal(expected) && !report_.first) {
      const double distance =
          divide(distance_between(mine, expected), norm_of(expected));
      report_.first = first_difference(
          "initial weight", mine, expected, {name, distance, 0.0});
    }
  }

  void compare_gradient(size_t step, const std::string& name) {
    const std::string in_step =
        step == 0 ? name : fmt::format("{} in step {}", name, step + 1);
    const Distance distance{in_step,
                            one_rank_.gradient_distance(layout_, step, name),
                            noise_.gradient_bound(step, name)};
    if (says_nothing(distance)) {
      step == 0 ? note_unproved(name) : void(weak_later_.insert(name));
      return;
    }
    keep_worst(report_.gradients, distance);
    if (!distance.is_within() && !report_.first) {
      report_.first = first_difference("gradient",
                                       layout_.gradients[step].at(name),
                                       one_rank_.run().gradients[step].at(name),
                                       distance);
    }
  }

  /// `counts`: the elements compared with another run's; undefined: with the
  /// replay, all.
  void compare_update(const std::string& name,
                      const TensorMap& end,
                      const TensorMap& start,
                      const at::Tensor& counts) {
    const auto update = [&](const TensorMap& from, const TensorMap& to) {
      const at::Tensor change =
          to.at(name).to(at::kDouble) - from.at(name).to(at::kDouble);
      return counts.defined()
                 ? at::where(counts, change, at::zeros_like(change))
                 : change;
    };
    const at::Tensor mine = update(layout_.start, layout_.end);
    const at::Tensor expected = update(start, end);
    const double floor = 1e-2 * replayed_.lr_sum * root_numel(expected);
    const double scale = std::max(norm_of(expected), floor);
    const Distance distance{name,
                            divide(distance_between(mine, expected), scale),
                            counts.defined()
                                ? kFp64Bound * after_update(Precision::kFp64)
                                : weight_bound(end.at(name), scale)};
    if (says_nothing(distance)) {
      note_unproved(name);
      return;
    }
    keep_worst(report_.weights, distance);
    if (!distance.is_within() && !report_.first) {
      report_.first = first_difference("update", mine, expected, distance);
      report_.first->reference = counts.defined() ? "on one rank" : "replayed";
    }
  }

  /// A weight is rounded once a step, on either side.
  double weight_bound(const at::Tensor& weight, double scale) const {
    if (config_.training.precision == Precision::kFp64) {
      return kFp64Bound;
    }
    const double rounding = std::numeric_limits<float>::epsilon() *
                            static_cast<double>(layout_.losses.size()) *
                            norm_of(weight);
    return std::max(rounding_floor(Precision::kFp32), divide(rounding, scale));
  }

  at::Tensor has_gradient(const std::string& name) const {
    return one_rank_.run().gradients[0].at(name).abs() >
           kTinyGradient * one_rank_.gradient_rms(0);
  }

  bool says_nothing(const Distance& distance) const {
    return distance.bound >= kProofless &&
           distance.distance > rounding_floor(config_.training.precision) &&
           distance.distance <= kOpposite;
  }

  void note_unproved(const std::string& name) {
    std::vector<std::string>& names = report_.unproved;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }

  static FirstDifference first_difference(const std::string& what,
                                          const at::Tensor& layout,
                                          const at::Tensor& one_rank,
                                          const Distance& distance) {
    FirstDifference first{.name = what + " of " + distance.what,
                          .distance = distance.distance,
                          .bound = distance.bound};
    const at::Tensor difference =
        (layout.to(at::kDouble) - one_rank.to(at::kDouble)).abs();
    int64_t flat = difference.reshape({-1}).argmax().item<int64_t>();
    first.layout_value = layout.reshape({-1})[flat].item<double>();
    first.one_rank_value = one_rank.reshape({-1})[flat].item<double>();
    for (int64_t dim = layout.dim() - 1; dim >= 0; --dim) {
      first.index.insert(first.index.begin(), flat % layout.size(dim));
      flat /= layout.size(dim);
    }
    return first;
  }

  /// Worst against its own bound.
  static void keep_worst(Distance& worst, const Distance& distance) {
    const auto excess = [](const Distance& d) {
      return !std::isfinite(d.distance)
                 ? std::numeric_limits<double>::infinity()
             : d.bound > 0 ? d.distance / d.bound
                           : 0.0;
    };
    if (worst.what.empty() || excess(distance) > excess(worst)) {
      worst = distance;
    }
  }

  std::string find_death() const {
    const Trajectory& alone = one_rank_.run();
    const double uniform =
        std::log(static_cast<double>(config_.model.vocab_size));
    bool is_uniform = true;
    bool has_gradient = false;
    for (size_t i = 0; i < alone.losses.size(); ++i) {
      is_uniform &= relative(alone.losses[i], uniform) < 1e-12;
      has_gradient |= alone.norms[i] > 0;
    }
    if (!has_gradient) {
      return "the gradient is zero in every step";
    }
    if (is_uniform) {
      return "the loss is exactly ln(vocab_size) in every step";
    }
    return report_.is_lost_in_rounding()
               ? "rounding may be half as large as every gradient; verify "
                 "with training.precision=fp64"
               : "";
  }

  const RunConfig& config_;
  const Trajectory& layout_;
  const OneRank& one_rank_;
  const Noise& noise_;
  const Replay replayed_;
  std::set<std::string> weak_later_;
  VerifyReport report_;
};

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
  // First, while the other ranks are here: they need not wait for the rest.
  const Trajectory layout =
      record_steps(tried, mesh, board, options.num_steps, options.broken);
  if (mesh.rank() != 0) {
    return {};
  }
  const OneRank one_rank(
      record_alone(one_rank_config(tried, tried.training.microbatch_size),
                   options.num_steps));
  Noise noise(one_rank, tried.training.precision);
  for (const RunConfig& other : noise_configs(tried)) {
    noise.add(record_alone(other, options.num_steps));
  }
  VerifyReport report = ReportBuilder(tried, layout, one_rank, noise).build();
  report.plan = plan_name(tried.parallel);
  report.num_steps = options.num_steps;
  return report;
}

}  // namespace triax
