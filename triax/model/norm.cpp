// SPDX-License-Identifier: Apache-2.0
#include "triax/model/norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "triax/model/statistics_dtype.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            double eps) {
    const at::Tensor wide = x.to(statistics_dtype(x.scalar_type()));
    const at::Tensor inverse_rms =
        at::mul(wide, wide).mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    context->save_for_backward({x, weight, inverse_rms});
    return at::mul(wide, inverse_rms).mul_(weight).to(x.scalar_type());
  }

  // y = x r w and r = (mean(x²) + eps)^(-1/2), so with h = g w:
  // dx = r h − x r³ mean(h x) and dw = Σ g x r.
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& inverse_rms = saved[2];
    const at::ScalarType dtype = inverse_rms.scalar_type();
    const at::Tensor x = saved[0].to(dtype);
    const at::Tensor grad = grads[0].to(dtype);
    const at::Tensor normed = at::mul(x, inverse_rms);
    at::Tensor grad_weight;
    if (context->needs_input_grad(1)) {
      grad_weight = at::mul(grad, normed).reshape({-1, x.size(-1)}).sum(0);
    }
    at::Tensor grad_x;
    if (context->needs_input_grad(0)) {
      at::Tensor scaled = at::mul(grad, saved[1]);
      const at::Tensor along =
          at::mul(scaled, normed).mean(-1, /*keepdim=*/true).neg_();
      grad_x = scaled.addcmul_(normed, along)
                   .mul_(inverse_rms)
                   .to(saved[0].scalar_type());
    }
    return {grad_x, grad_weight, at::Tensor()};
  }
};

/// LibTorch's kernels, but in fp32 for backward: that of a 16-bit x sums the
/// gradients of weight and bias in 16 bits, and 4,097 ones are 512 then.
class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& bias,
                            double eps) {
    const at::ScalarType dtype = statistics_dtype(x.scalar_type());
    const auto [y, mean, inverse_deviation] = at::native_layer_norm(
        x, weight.sizes(), weight.to(dtype), bias.to(dtype), eps);
    context->save_for_backward({x, weight, bias, mean, inverse_deviation});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::ScalarType narrow = saved[0].scalar_type();
    const at::ScalarType dtype = statistics_dtype(narrow);
    const auto [grad_x, grad_weight, grad_bias] =
        at::native_layer_norm_backward(grads[0].to(dtype).contiguous(),
                                       saved[0].to(dtype),
                                       saved[1].sizes(),
                                       saved[3],
                                       saved[4],
                                       saved[1].to(dtype),
                                       saved[2].to(dtype),
                                       {context->needs_input_grad(0),
                                        context->needs_input_grad(1),
                                        context->needs_input_grad(2)});
    return {grad_x.defined() ? grad_x.to(narrow) : grad_x,
            grad_weight,
            grad_bias,
            at::Tensor()};
  }
};

}  // namespace

RmsNorm::RmsNorm(int64_t features, double eps)
    : weight(make_slot("weight", {features}, ParameterRole::kNorm)),
      eps_(eps) {}

at::Tensor RmsNorm::forward(const at::Tensor& x) {
  return RmsNormFunction::apply(x, weight->tensor, eps_);
}

LayerNorm::LayerNorm(int64_t features, double eps)
    : weight(make_slot("weight", {features}, ParameterRole::kNorm)),
      bias(make_slot("bias", {features}, ParameterRole::kBias)),
      eps_(eps) {}

at::Tensor LayerNorm::forward(const at::Tensor& x) {
  return LayerNormFunction::apply(x, weight->tensor, bias->tensor, eps_);
}

}  // namespace triax
