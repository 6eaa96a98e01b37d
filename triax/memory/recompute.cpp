// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/recompute.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "triax/memory/saved_call.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// `anchor` has no data: it makes the output need a gradient where only the
/// segment's parameters do.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const at::Tensor& /*anchor*/,
                            const Segment& segment) {
    context->save_for_backward({input});
    context->saved_data["segment"] = save_call(segment);
    return segment(input);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const bool needs_input = context->needs_input_grad(0);
    const at::Tensor input =
        context->get_saved_variables()[0].detach().requires_grad_(needs_input);
    at::Tensor output;
    {
      const at::AutoGradMode with_graph(true);
      const ActivationScope memory;
      output = saved_call<at::Tensor(const at::Tensor&)>(
          context->saved_data.at("segment"))(input);
    }
    torch::autograd::backward({output}, {grads[0]});
    return {
        needs_input ? input.grad() : at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor recompute(const at::Tensor& input,
                     const Segment& segment,
                     bool is_trained) {
  if (!at::GradMode::is_enabled() || !(is_trained || input.requires_grad())) {
    return segment(input);
  }
  const at::Tensor anchor =
      at::empty({0}, input.options()).requires_grad_(is_trained);
  return Recompute::apply(input, anchor, segment);
}

}  // namespace triax
