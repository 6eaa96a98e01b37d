// SPDX-License-Identifier: Apache-2.0
#include "triax/train/rounding_noise.h"

#include <algorithm>

namespace triax {
namespace {

constexpr double kNoiseFactor = 4.0;

/// Of gradients that are sent narrower than they are; one rank sends none. Each
/// replica's part is rounded, and the sum, which may be smaller than the parts.
double sending_floor(ReduceDtype sent_as) {
  return sent_as == ReduceDtype::kGradients ? 0.0
                                            : rounding_floor(Precision::kBf16);
}

/// What that share of the distances stays below.
double quantile(const std::map<std::string, double>& distances, double share) {
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

void raise_to(StepDistances& farthest, const StepDistances& distances) {
  farthest.loss = std::max(farthest.loss, distances.loss);
  farthest.norm = std::max(farthest.norm, distances.norm);
  for (const auto& [name, distance] : distances.gradients) {
    double& so_far = farthest.gradients[name];
    so_far = std::max(so_far, distance);
  }
}

}  // namespace

double rounding_floor(Precision precision) {
  switch (precision) {
    case Precision::kFp64:
      return kFp64Bound;
    case Precision::kFp32:
      return 1e-5;
    case Precision::kBf16Autocast:
    case Precision::kBf16:
      return 2e-2;
    case Precision::kFp16:  // three bits more
      return 2.5e-3;
  }
  return 0;
}

double after_update(Precision precision) {
  return precision == Precision::kFp64 ? 1e3 : 4.0;
}

RoundingNoise::RoundingNoise(Precision precision, ReduceDtype sent_as)
    : precision_(precision),
      floor_(std::max(rounding_floor(precision), sending_floor(sent_as))) {}

void RoundingNoise::add_step(const std::vector<StepDistances>& runs) {
  ++num_steps_;
  farthest_.resize(runs.size());
  for (size_t run = 0; run < runs.size(); ++run) {
    raise_to(farthest_[run], runs[run]);
    raise_to(noise_, farthest_[run]);
  }
  typical_ = quantile(noise_.gradients, 0.5);
  usual_ = quantile(noise_.gradients, 0.9);
}

double RoundingNoise::loss_bound() const {
  return bound(noise_.loss, scalar_floor());
}

double RoundingNoise::norm_bound() const {
  // A sum lies no closer than its parts.
  return bound(std::max(noise_.norm, typical_), scalar_floor());
}

double RoundingNoise::gradient_bound(const std::string& name) const {
  const auto found = noise_.gradients.find(name);
  return bound(
      found == noise_.gradients.end() ? 0.0 : std::max(found->second, usual_),
      floor_);
}

/// For loss and norm, which are sums over many elements.
double RoundingNoise::scalar_floor() const {
  const bool is_narrow = floor_ > rounding_floor(Precision::kFp32);
  return is_narrow ? floor_ / 2 : floor_;
}

double RoundingNoise::bound(double noise, double floor) const {
  const Precision as = floor_ > kFp64Bound ? Precision::kFp32 : precision_;
  return (num_steps_ <= 1 ? 1.0 : after_update(as)) *
         std::max(floor, kNoiseFactor * noise);
}

}  // namespace triax
