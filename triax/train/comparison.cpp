// SPDX-License-Identifier: Apache-2.0
#include "triax/train/comparison.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "triax/config/fields.h"
#include "triax/model/scalar_type.h"
#include "triax/plan/logical_parameters.h"
#include "triax/plan/reference_runs.h"
#include "triax/train/distance.h"

namespace triax {
namespace {

/// After updates on both sides fp64's bound is wider by this. AdamW divides a
/// gradient below its eps (1e-8) by it: a rounding of 1e-15 moves the weight by
/// 1e-7 of lr. And it turns a gradient that is all rounding into a full step of
/// either sign.
constexpr double kAfterUpdate = 1e3;
/// Of the rms of all gradients: what counts as none in fp64.
constexpr double kTinyGradient = 1e-10;
/// A bound above this says nothing: a tensor of zeros has distance 1.
constexpr double kProofless = 0.5;
/// Tensors of one norm lie no farther apart.
constexpr double kOpposite = 2.0;

std::vector<std::string> parameter_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    names.push_back(parameter.name);
  }
  return names;
}

/// Of few, one may happen to lie close.
constexpr int kNumPerturbed = 6;
/// Of the distance of a perturbed run: each weight is moved by up to a unit in
/// the last place, and a rounding is half a unit at most.
constexpr double kShareOfPerturbation = 0.5;

/// Relative, of what is multiplied.
double last_place(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return 0x1p-52;
    case Precision::kFp32:
      return 0x1p-23;
    case Precision::kBf16Autocast:
    case Precision::kBf16:
      return 0x1p-7;
    case Precision::kFp16:
      return 0x1p-10;
  }
  return 0;
}

/// Each element by up to one unit in the last place of what is multiplied: by
/// what another order of the sums may do to a product.
TensorMap perturbed(const TensorMap& weights,
                    Precision precision,
                    uint64_t seed) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  TensorMap moved;
  for (const auto& [name, weight] : weights) {
    const at::Tensor share =
        at::empty_like(weight).uniform_(-1.0, 1.0, generator);
    moved[name] = weight + weight * share * last_place(precision);
  }
  return moved;
}

/// How far all gradients together lie from others.
double whole_distance(const TensorMap& gradients,
                      const TensorMap& others,
                      double rms) {
  double squares = 0;
  double numel = 0;
  for (const auto& [name, gradient] : gradients) {
    squares += std::pow(distance_between(gradient, others.at(name)), 2);
    numel += static_cast<double>(gradient.numel());
  }
  return divide(std::sqrt(squares), rms * std::sqrt(numel));
}

/// What sending them in bf16 may do, as distances.
StepDistances sent_distances(const TensorMap& gradients,
                             const std::map<std::string, double>& parts,
                             double rms) {
  StepDistances sent;
  double squares = 0;
  double numel = 0;
  for (const auto& [name, norm] : parts) {
    const at::Tensor& gradient = gradients.at(name);
    const double most = sent_in_bf16(norm);
    sent.gradients[name] = divide(most, gradient_scale(gradient, rms));
    squares += most * most;
    numel += static_cast<double>(gradient.numel());
  }
  sent.norm = divide(std::sqrt(squares), rms * std::sqrt(numel));
  return sent;
}

/// Worst against its own bound.
void keep_worst(Distance& worst, const Distance& distance) {
  const auto excess = [](const Distance& d) {
    return !std::isfinite(d.distance) ? std::numeric_limits<double>::infinity()
           : d.bound > 0              ? d.distance / d.bound
                                      : 0.0;
  };
  if (worst.what.empty() || excess(distance) > excess(worst)) {
    worst = distance;
  }
}

FirstDifference first_difference(const std::string& what,
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

}  // namespace

Comparison::Comparison(const RunConfig& config, TensorMap start)
    : config_(config),
      is_exact_(has_exact_gradients(config)),
      names_(parameter_names(config.model)),
      start_(std::move(start)),
      one_rank_(std::make_unique<LoneRun>(reference_config(config))),
      replay_(config, start_),
      noise_(config.training.precision) {
  for (const RunConfig& other : noise_configs(config)) {
    others_.push_back(std::make_unique<LoneRun>(other));
  }
  report_.precision = chosen("training.precision", config_);
  compare_start();
}

/// Both draw them by (seed, name, element).
void Comparison::compare_start() {
  one_rank_start_ = one_rank_->run().weights();
  for (const std::string& name : names_) {
    const at::Tensor& mine = start_.at(name);
    at::Tensor& expected = one_rank_start_.at(name);
    if (mine.equal(expected)) {
      expected = mine;
    } else if (!report_.first) {
      const double distance =
          divide(distance_between(mine, expected), norm_of(expected));
      report_.first = first_difference(
          "initial weight", mine, expected, {name, distance, 0.0});
    }
  }
}

void Comparison::add(const RunStep& layout) {
  if (!is_exact_) {
    lead();
  }
  std::map<std::string, double> parts;
  const RunStep alone = step_reference(parts);
  if (!compare_skip(layout, alone)) {
    return;
  }
  const double rms = rms_of(alone.gradients);
  noise_.add_step(step_others(alone, rms),
                  sent_distances(alone.gradients, parts, rms));
  if (num_steps() == 0) {
    note_first_step(alone, rms);
  }
  compare_scalars(layout, alone, replay_.step(layout.gradients));
  for (const std::string& name : names_) {
    compare_gradient(
        name, layout.gradients.at(name), alone.gradients.at(name), rms);
  }
}

/// Puts the runs on one rank where the layout must stand, which the replay
/// knows: what rounding did in the steps before says nothing of this one.
void Comparison::lead() {
  if (num_steps() > 0) {  // it has drawn its own
    one_rank_->run().set_weights(replay_.weights());
  }
  for (const auto& other : others_) {
    other->run().set_weights(replay_.weights());
  }
}

/// `parts`: where replicas send gradients in a narrower type, the norms of the
/// microbatches' parts, of which each replica's part is a sum.
RunStep Comparison::step_reference(std::map<std::string, double>& parts) {
  SteppedRun& run = one_rank_->run();
  return sends_narrower(config_.parallel) ? run.step_by_parts(parts)
                                          : run.step();
}

/// Of the runs that round otherwise, and of the reference's from perturbed
/// weights, one after the other.
std::vector<StepDistances> Comparison::step_others(const RunStep& alone,
                                                   double rms) {
  std::vector<StepDistances> distances;
  const auto add = [&](const RunStep& step, double share) {
    StepDistances& distance = distances.emplace_back();
    distance.loss = share * relative(step.loss, alone.loss);
    distance.norm =
        share * whole_distance(step.gradients, alone.gradients, rms);
    for (const auto& [name, gradient] : alone.gradients) {
      distance.gradients[name] =
          share * gradient_distance(step.gradients.at(name), gradient, rms);
    }
  };
  for (const auto& other : others_) {
    add(other->run().step(), 1.0);
  }
  for (int i = 0; i < kNumPerturbed && !is_fp64(); ++i) {
    add(one_rank_->run().repeat_step(
            perturbed(replay_.weights(),
                      config_.training.precision,
                      static_cast<uint64_t>(num_steps()) * kNumPerturbed + i)),
        kShareOfPerturbation);
  }
  return distances;
}

void Comparison::note_first_step(const RunStep& alone, double rms) {
  for (const auto& [name, gradient] : alone.gradients) {
    report_.num_parameters += norm_of(gradient) > 0;
    if (is_exact_) {
      has_gradient_[name] = gradient.abs() > kTinyGradient * rms;
    }
  }
}

void Comparison::compare_scalars(const RunStep& layout,
                                 const RunStep& alone,
                                 double replayed_norm) {
  report_.losses.push_back(layout.loss);
  report_.one_rank_losses.push_back(alone.loss);
  report_.norms.push_back(layout.norm);
  report_.one_rank_norms.push_back(alone.norm);
  keep_worst(report_.loss,
             {"loss",
              relative(layout.loss, alone.loss),
              widening() * noise_.loss_bound()});
  keep_worst(report_.norm,
             {"gradient norm",
              relative(layout.norm, alone.norm),
              widening() * noise_.norm_bound()});
  keep_worst(report_.norm,
             {"of the gradients themselves",
              relative(layout.norm, replayed_norm),
              is_fp64() ? kFp64Bound : 1e-6});
}

/// The runs in another type do not overflow, and would go ahead of a skipped
/// step: nothing is compared from there on. False then.
bool Comparison::compare_skip(const RunStep& layout, const RunStep& alone) {
  const bool is_skipped = layout.is_skipped || alone.is_skipped;
  if (!is_skipped && overflow_.empty()) {
    return true;
  }
  report_.losses.push_back(layout.loss);
  report_.one_rank_losses.push_back(alone.loss);
  report_.norms.push_back(layout.norm);
  report_.one_rank_norms.push_back(alone.norm);
  if (overflow_.empty()) {
    overflow_ = fmt::format(
        "gradients overflowed fp16 in step {}; verify with a lower "
        "training.initial_loss_scale",
        num_steps());
  }
  if (layout.is_skipped != alone.is_skipped && !report_.first) {
    report_.first =
        FirstDifference{.name = fmt::format("overflow in step {}", num_steps()),
                        .layout_value = layout.norm,
                        .one_rank_value = alone.norm,
                        .distance = 1.0};
  }
  return false;
}

void Comparison::compare_gradient(const std::string& name,
                                  const at::Tensor& layout,
                                  const at::Tensor& alone,
                                  double rms) {
  const bool is_first_step = num_steps() == 1;
  const Distance distance{
      is_first_step ? name : fmt::format("{} in step {}", name, num_steps()),
      gradient_distance(layout, alone, rms),
      widening() * noise_.gradient_bound(name, alone.numel())};
  if (says_nothing(distance)) {
    is_first_step ? note_unproved(name) : void(weak_later_.insert(name));
    return;
  }
  keep_worst(report_.gradients, distance);
  if (!distance.is_within() && !report_.first) {
    report_.first = first_difference("gradient", layout, alone, distance);
  }
}

VerifyReport Comparison::finish(const TensorMap& end,
                                const TensorMap& parameters) {
  others_.clear();
  if (overflow_.empty()) {
    compare_weights(end);
  }
  compare_rounding(end, parameters);
  report_.num_steps = static_cast<int64_t>(num_steps());
  report_.num_weak_later = weak_later_.size();
  report_.has_overflowed = !overflow_.empty();
  report_.dead = find_death();
  return std::move(report_);
}

void Comparison::compare_weights(const TensorMap& layout) {
  const TensorMap alone = is_exact_ ? one_rank_->run().weights() : TensorMap{};
  const auto update = [](const at::Tensor& from, const at::Tensor& to) {
    return to.to(at::kDouble) - from.to(at::kDouble);
  };
  const auto compare = [&](const std::string& name,
                           const at::Tensor& mine,
                           const at::Tensor& expected,
                           const at::Tensor& replayed) {
    const double floor = 1e-2 * replay_.lr_sum() * root_numel(expected);
    const double scale = std::max(norm_of(expected), floor);
    compare_update(name,
                   mine,
                   expected,
                   {name,
                    divide(distance_between(mine, expected), scale),
                    replayed.defined() ? weight_bound(replayed, scale)
                                       : kFp64Bound * kAfterUpdate},
                   replayed.defined() ? "replayed" : "on one rank");
  };
  for (const std::string& name : names_) {
    const at::Tensor mine = update(start_.at(name), layout.at(name));
    const at::Tensor& replayed = replay_.weights().at(name);
    compare(name, mine, update(start_.at(name), replayed), replayed);
    if (is_exact_) {
      const at::Tensor& counts = has_gradient_.at(name);
      const at::Tensor none = at::zeros_like(mine);
      compare(
          name,
          at::where(counts, mine, none),
          at::where(
              counts, update(one_rank_start_.at(name), alone.at(name)), none),
          {});
    }
  }
}

/// Bit for bit: a parameter is its master, rounded once.
void Comparison::compare_rounding(const TensorMap& end,
                                  const TensorMap& parameters) {
  const at::ScalarType dtype =
      to_scalar_type(parameter_dtype(config_.training.precision));
  for (const std::string& name : names_) {
    const at::Tensor& mine = parameters.at(name);
    const at::Tensor expected = end.at(name).to(dtype).to(mine.scalar_type());
    if (!mine.equal(expected) && !report_.first) {
      const double distance =
          divide(distance_between(mine, expected), norm_of(expected));
      report_.first =
          first_difference("parameter", mine, expected, {name, distance, 0.0});
      report_.first->reference = "rounded master";
    }
  }
}

void Comparison::compare_update(const std::string& name,
                                const at::Tensor& mine,
                                const at::Tensor& expected,
                                const Distance& distance,
                                const char* reference) {
  if (says_nothing(distance)) {
    note_unproved(name);
    return;
  }
  keep_worst(report_.weights, distance);
  if (!distance.is_within() && !report_.first) {
    report_.first = first_difference("update", mine, expected, distance);
    report_.first->reference = reference;
  }
}

/// A weight is rounded once a step, on either side.
double Comparison::weight_bound(const at::Tensor& weight, double scale) const {
  if (is_fp64()) {
    return kFp64Bound;
  }
  const double rounding = std::numeric_limits<float>::epsilon() *
                          static_cast<double>(num_steps()) * norm_of(weight);
  return std::max(rounding_floor(Precision::kFp32), divide(rounding, scale));
}

bool Comparison::says_nothing(const Distance& distance) const {
  return distance.bound >= kProofless && distance.distance > noise_.floor() &&
         distance.distance <= kOpposite;
}

void Comparison::note_unproved(const std::string& name) {
  std::vector<std::string>& names = report_.unproved;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

std::string Comparison::find_death() const {
  if (!overflow_.empty()) {
    return overflow_;
  }
  const double uniform =
      std::log(static_cast<double>(config_.model.vocab_size));
  bool is_uniform = true;
  bool has_gradient = false;
  for (size_t i = 0; i < num_steps(); ++i) {
    is_uniform &= relative(report_.one_rank_losses[i], uniform) < 1e-12;
    has_gradient |= report_.one_rank_norms[i] > 0;
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

bool Comparison::is_fp64() const {
  return config_.training.precision == Precision::kFp64;
}

/// Of bounds, where one rank has made updates of its own.
double Comparison::widening() const {
  return is_exact_ && num_steps() > 1 ? kAfterUpdate : 1.0;
}

}  // namespace triax
