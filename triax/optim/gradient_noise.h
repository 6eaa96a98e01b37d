// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace triax {

/// Estimates the gradient noise scale of McCandlish et al. 2018, "An Empirical
/// Model of Large-Batch Training", appendix A.1. From the squared norms of
/// mean gradients over b and over B > b samples,
///   |G|² ≈ (B |G_B|² − b |G_b|²) / (B − b)
///   tr Σ ≈ (|G_b|² − |G_B|²) / (1/b − 1/B)
/// are unbiased; both are averaged exponentially over steps on their own,
/// since only the ratio of the averages, B_simple = tr Σ / |G|², is useful.
/// B_simple is the batch size, in the unit of b and B (sequences or tokens),
/// below which a larger batch saves nearly proportionally many steps.
///
/// Costs nothing where gradients are accumulated or averaged anyway: b is what
/// one replica (or microbatch) sees, B the global batch. |G_b|² should be the
/// mean over all replicas of the step; both gradients must be means over their
/// own samples and not be clipped yet.
class GradientNoise {
 public:
  /// `decay` is the weight of the past in both averages, in [0, 1).
  explicit GradientNoise(double decay = 0.95);

  /// One step. Ignored, and counted, when a norm is not finite; says nothing
  /// when the two batch sizes are equal (one replica, one microbatch).
  void add(double small_batch,
           double small_squared_norm,
           double big_batch,
           double big_squared_norm);

  /// B_simple; empty before the first usable step, and while an average is
  /// not positive (the noise is then larger than what the average resolves).
  std::optional<double> noise_scale() const;

  /// The averages themselves, bias-corrected; 0 before the first usable step.
  double squared_gradient() const;
  double trace_of_covariance() const;
  int64_t num_steps() const { return num_steps_; }
  int64_t num_ignored() const { return num_ignored_; }

 private:
  const double decay_;
  double squared_gradient_ = 0.0;
  double trace_ = 0.0;
  double weight_ = 0.0;
  int64_t num_steps_ = 0;
  int64_t num_ignored_ = 0;
};

/// One sentence for people: what a larger batch would bring. By eq. 2.11 of
/// the paper a batch B needs (1 + B_simple / B) times the fewest steps and
/// (1 + B / B_simple) times the fewest samples.
std::string batch_size_advice(double noise_scale, double global_batch_size);

}  // namespace triax
