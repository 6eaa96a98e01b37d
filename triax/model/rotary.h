// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "triax/config/run_config.h"

namespace triax {

/// Cosine and sine of the angles, [S, D / 2] each, of S positions.
struct RotaryAngles {
  at::Tensor cosine;
  at::Tensor sine;
};

/// Rotary position embedding (Su et al., RoFormer), the rotate-half form of
/// Hugging Face's Llama: element i of a head of D turns with element i + D/2
/// by position · θ^(−2i/D). Angles are taken in fp32, as there.
class Rotary {
 public:
  Rotary(int64_t head_dim, double theta, const RopeScaling& scaling);

  /// The last answer is kept: a model's layers ask for the same one.
  RotaryAngles angles(int64_t first_position,
                      int64_t length,
                      at::ScalarType dtype);

 private:
  const at::Tensor inverse_frequency_;  // [D / 2] fp32
  int64_t cached_position_ = -1;
  RotaryAngles cached_;
};

/// θ^(−2i/D), scaled for "llama3" as in transformers' modeling_rope_utils.
/// Throws Error for a scaling type that is not built.
at::Tensor inverse_frequencies(int64_t head_dim,
                               double theta,
                               const RopeScaling& scaling);

/// Turns the first `num_heads` heads of x [B, S, heads · D], in place, and
/// returns x. Keeps only the angles for backward.
at::Tensor rotate_(const at::Tensor& x,
                   const RotaryAngles& angles,
                   int64_t num_heads);

}  // namespace triax
