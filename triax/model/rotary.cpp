// SPDX-License-Identifier: Apache-2.0
#include "triax/model/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numbers>

#include "triax/base/error.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// x [B, S, heads · D]: (a, b) → (a c − b s, b c + a s), `sign` turns s round.
void turn(at::Tensor& x,
          const at::Tensor& cosine,
          const at::Tensor& sine,
          int64_t num_heads,
          int sign) {
  const int64_t half = cosine.size(1);
  at::Tensor heads = x.narrow(2, 0, num_heads * 2 * half)
                         .view({x.size(0), x.size(1), num_heads, 2, half});
  at::Tensor a = heads.select(3, 0);
  at::Tensor b = heads.select(3, 1);
  const at::Tensor c = cosine.unsqueeze(1);
  const at::Tensor s = sine.unsqueeze(1);
  const at::Tensor a_sine = at::mul(a, s);
  a.mul_(c).addcmul_(b, s, -sign);
  b.mul_(c).add_(a_sine, sign);
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            at::Tensor x,
                            const at::Tensor& cosine,
                            const at::Tensor& sine,
                            int64_t num_heads) {
    context->save_for_backward({cosine, sine});
    context->saved_data["num_heads"] = num_heads;
    turn(x, cosine, sine, num_heads, 1);
    context->mark_dirty({x});
    return x;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    at::Tensor grad = grads[0].clone(at::MemoryFormat::Contiguous);
    turn(
        grad, saved[0], saved[1], context->saved_data["num_heads"].toInt(), -1);
    return {grad, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Llama 3.1: long waves slow down by `factor`, short ones stay, those in
/// between are blended.
at::Tensor scale_llama3(const at::Tensor& inverse, const RopeScaling& scaling) {
  const double original =
      static_cast<double>(scaling.original_max_position_embeddings);
  const at::Tensor wavelength = inverse.reciprocal().mul_(2 * std::numbers::pi);
  const at::Tensor slowed = inverse / scaling.factor;
  const at::Tensor blend =
      (wavelength.reciprocal() * original - scaling.low_freq_factor) /
      (scaling.high_freq_factor - scaling.low_freq_factor);
  const at::Tensor blended = (1 - blend) * slowed + blend * inverse;
  const at::Tensor scaled = at::where(
      wavelength > original / scaling.low_freq_factor, slowed, blended);
  return at::where(
      wavelength < original / scaling.high_freq_factor, inverse, scaled);
}

}  // namespace

at::Tensor inverse_frequencies(int64_t head_dim,
                               double theta,
                               const RopeScaling& scaling) {
  TRIAX_CHECK(head_dim % 2 == 0, "head_dim ", head_dim);
  const at::Tensor exponent =
      at::arange(0, head_dim, 2, at::kFloat) / static_cast<double>(head_dim);
  const at::Tensor inverse = at::pow(theta, exponent).reciprocal();
  if (scaling.type == "default") {
    return inverse;
  }
  if (scaling.type == "llama3") {
    return scale_llama3(inverse, scaling);
  }
  throw Error("model.rope_scaling.type \"",
              scaling.type,
              "\" is not built; use \"default\" or \"llama3\"");
}

Rotary::Rotary(int64_t head_dim, double theta, const RopeScaling& scaling)
    : inverse_frequency_(inverse_frequencies(head_dim, theta, scaling)) {}

RotaryAngles Rotary::angles(int64_t first_position,
                            int64_t length,
                            at::ScalarType dtype) {
  const bool is_cached = cached_position_ == first_position &&
                         cached_.cosine.size(0) == length &&
                         cached_.cosine.scalar_type() == dtype;
  if (!is_cached) {
    const at::Tensor positions =
        at::arange(first_position, first_position + length, at::kFloat);
    const at::Tensor angles = at::outer(positions, inverse_frequency_);
    cached_ = {angles.cos().to(dtype), angles.sin().to(dtype)};
    cached_position_ = first_position;
  }
  return cached_;
}

at::Tensor rotate_(const at::Tensor& x,
                   const RotaryAngles& angles,
                   int64_t num_heads) {
  return RotateFunction::apply(x, angles.cosine, angles.sine, num_heads);
}

}  // namespace triax
