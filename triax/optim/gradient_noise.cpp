// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/gradient_noise.h"

#include <fmt/format.h>

#include <cmath>

#include "triax/base/error.h"

namespace triax {

GradientNoise::GradientNoise(double decay) : decay_(decay) {
  TRIAX_CHECK(decay >= 0.0 && decay < 1.0, "decay ", decay);
}

void GradientNoise::add(double small_batch,
                        double small_squared_norm,
                        double big_batch,
                        double big_squared_norm) {
  TRIAX_CHECK(small_batch > 0.0 && big_batch >= small_batch,
              small_batch,
              " and ",
              big_batch);
  const bool is_usable = big_batch > small_batch &&
                         std::isfinite(small_squared_norm) &&
                         std::isfinite(big_squared_norm);
  if (!is_usable) {
    ++num_ignored_;
    return;
  }
  const double squared_gradient =
      (big_batch * big_squared_norm - small_batch * small_squared_norm) /
      (big_batch - small_batch);
  const double trace = (small_squared_norm - big_squared_norm) /
                       (1.0 / small_batch - 1.0 / big_batch);
  squared_gradient_ =
      decay_ * squared_gradient_ + (1.0 - decay_) * squared_gradient;
  trace_ = decay_ * trace_ + (1.0 - decay_) * trace;
  weight_ = decay_ * weight_ + (1.0 - decay_);
  ++num_steps_;
}

double GradientNoise::squared_gradient() const {
  return num_steps_ > 0 ? squared_gradient_ / weight_ : 0.0;
}

double GradientNoise::trace_of_covariance() const {
  return num_steps_ > 0 ? trace_ / weight_ : 0.0;
}

std::optional<double> GradientNoise::noise_scale() const {
  if (num_steps_ == 0 || !(squared_gradient_ > 0.0) || !(trace_ > 0.0)) {
    return std::nullopt;
  }
  return trace_ / squared_gradient_;
}

std::string batch_size_advice(double noise_scale, double global_batch_size) {
  TRIAX_CHECK(noise_scale > 0.0 && global_batch_size > 0.0,
              noise_scale,
              " and ",
              global_batch_size);
  const double more_steps = noise_scale / global_batch_size;
  const double more_samples = global_batch_size / noise_scale;
  const std::string facts = fmt::format(
      "gradient noise scale {:.3g}, global batch {:.3g}: about {:.3g}x the "
      "fewest steps and {:.3g}x the fewest samples",
      noise_scale,
      global_batch_size,
      1.0 + more_steps,
      1.0 + more_samples);
  if (more_steps > 2.0) {
    return facts +
           "; a larger batch would pay: it needs fewer steps at "
           "little cost in samples";
  }
  if (more_samples > 2.0) {
    return facts +
           "; a larger batch would not pay: a smaller one reaches "
           "the same loss from fewer samples";
  }
  return facts +
         "; the batch is near the balance of steps and samples, a "
         "larger one would pay little";
}

}  // namespace triax
