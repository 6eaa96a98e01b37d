// SPDX-License-Identifier: Apache-2.0
#include "triax/model/feed_forward.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class SwiGluFunction : public torch::autograd::Function<SwiGluFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    const int64_t width = gate_up.size(-1) / 2;
    return at::silu(gate_up.narrow(-1, 0, width))
        .mul_(gate_up.narrow(-1, width, width));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor gate_up = context->get_saved_variables()[0];
    const int64_t width = gate_up.size(-1) / 2;
    const at::Tensor gate = gate_up.narrow(-1, 0, width);
    const at::Tensor up = gate_up.narrow(-1, width, width);
    const at::Tensor grad = at::empty_like(gate_up);
    at::Tensor grad_gate = grad.narrow(-1, 0, width);
    at::Tensor grad_up = grad.narrow(-1, width, width);
    at::silu_out(grad_up, gate).mul_(grads[0]);
    at::silu_backward_out(grad_gate, at::mul(grads[0], up), gate);
    return {grad};
  }
};

}  // namespace

FeedForward::FeedForward(const FeedForwardOptions& options)
    : activation_(options.activation) {
  const int64_t num_halves = activation_ == Activation::kSwiGlu ? 2 : 1;
  up = register_module(
      "up",
      std::make_shared<Linear>(
          LinearOptions{.in_features = options.hidden_size,
                        .out_features = num_halves * options.intermediate_size,
                        .has_bias = options.has_bias}));
  down = register_module("down",
                         std::make_shared<Linear>(LinearOptions{
                             .in_features = options.intermediate_size,
                             .out_features = options.hidden_size,
                             .has_bias = options.has_bias}));
}

at::Tensor FeedForward::activate(const at::Tensor& hidden) const {
  // LibTorch's own gelu backward keeps only its input.
  return activation_ == Activation::kSwiGlu ? swiglu(hidden)
                                            : at::gelu(hidden, "tanh");
}

at::Tensor FeedForward::forward(const at::Tensor& x, const Redo& redo) {
  const at::Tensor hidden = up->forward(x, redo);
  if (!redoes_activation) {
    return down->forward(activate(hidden));
  }
  const auto again = [this](const at::Tensor& kept) { return activate(kept); };
  return down->forward(activate(hidden), {hidden, again});
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return SwiGluFunction::apply(gate_up);
}

}  // namespace triax
