// SPDX-License-Identifier: Apache-2.0
#include "triax/train/rounding_noise.h"

#include <algorithm>
#include <cmath>

namespace triax {
namespace {

constexpr double kNoiseFactor = 4.0;
/// Standard deviations of Fisher's z.
constexpr double kFisherDeviations = 5.0;

/// How much farther than another a rounding of so many elements may lie. Two
/// norms of n independent errors of one size have the ratio exp(z), where z has
/// a standard deviation of about 1 / sqrt(n) (Fisher's z, half the logarithm of
/// an F(n, n) variable).
double noise_factor(int64_t numel) {
  return std::max(
      kNoiseFactor,
      std::exp(kFisherDeviations / std::sqrt(static_cast<double>(numel))));
}

double value_or_zero(const std::map<std::string, double>& values,
                     const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0.0 : found->second;
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

double sent_in_bf16(double parts) {
  return 4 * 0x1p-8 * parts;
}

RoundingNoise::RoundingNoise(Precision precision)
    : floor_(rounding_floor(precision)) {}

void RoundingNoise::add_step(const std::vector<StepDistances>& runs,
                             const StepDistances& sent) {
  for (const StepDistances& run : runs) {
    raise_to(noise_, run);
  }
  sent_ = sent;
  usual_ = quantile(noise_.gradients, 0.9);
}

double RoundingNoise::loss_bound() const {
  return std::max(scalar_floor(), kNoiseFactor * noise_.loss);
}

double RoundingNoise::norm_bound() const {
  return std::max(scalar_floor(), kNoiseFactor * noise_.norm) + sent_.norm;
}

double RoundingNoise::gradient_bound(const std::string& name,
                                     int64_t numel) const {
  const double own = value_or_zero(noise_.gradients, name);
  return std::max({floor_, noise_factor(numel) * own, kNoiseFactor * usual_}) +
         value_or_zero(sent_.gradients, name);
}

/// For loss and norm, which are sums over many elements.
double RoundingNoise::scalar_floor() const {
  const bool is_narrow = floor_ > rounding_floor(Precision::kFp32);
  return is_narrow ? floor_ / 2 : floor_;
}

}  // namespace triax
