// SPDX-License-Identifier: Apache-2.0
#include "triax/model/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "triax/base/error.h"
#include "triax/memory/saved_call.h"
#include "triax/model/statistics_dtype.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The product; its backward is where the weight's gradient may be put off.
class Product : public torch::autograd::Function<Product> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& input,
                            const at::Tensor& weight,
                            at::ScalarType dtype,
                            const Redo& redo,
                            const Linear::OnWeightGradient& on_gradient) {
    const at::Tensor x = input.to(dtype);
    context->save_for_backward({redo.call ? redo.kept.detach() : x, weight});
    context->saved_data["input_dtype"] = input.scalar_type();
    context->saved_data["dtype"] = dtype;
    if (redo.call) {
      context->saved_data["redo"] = save_call(redo.call);
    }
    if (on_gradient) {
      context->saved_data["seam"] = save_call(on_gradient);
    }
    return at::linear(x, weight.to(dtype));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const at::Tensor& grad = grads[0];
    at::Tensor grad_input;
    at::Tensor grad_weight;
    if (context->needs_input_grad(0)) {
      grad_input = at::matmul(grad, weight.to(grad.scalar_type()))
                       .to(context->saved_data["input_dtype"].toScalarType());
    }
    if (context->needs_input_grad(1)) {
      const at::Tensor input = input_again(context, saved[0]);
      const auto seam = context->saved_data.find("seam");
      if (seam != context->saved_data.end()) {
        saved_call<void(const at::Tensor&, const at::Tensor&)>(seam->second)(
            input, grad);
      } else {
        grad_weight = weight_gradient(
            input, grad, statistics_dtype(weight.scalar_type()));
      }
    }
    return {grad_input, grad_weight, at::Tensor(), at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor input_again(AutogradContext* context,
                                const at::Tensor& kept) {
    const auto redo = context->saved_data.find("redo");
    if (redo == context->saved_data.end()) {
      return kept;
    }
    return saved_call<at::Tensor(const at::Tensor&)>(redo->second)(kept).to(
        context->saved_data["dtype"].toScalarType());
  }
};

/// y + b, in place. The bias's gradient is summed without rounding to y's type.
class AddBias : public torch::autograd::Function<AddBias> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            at::Tensor y,
                            const at::Tensor& bias) {
    context->saved_data["dtype"] = statistics_dtype(bias.scalar_type());
    y.add_(bias);
    context->mark_dirty({y});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    at::Tensor grad_bias;
    if (context->needs_input_grad(1)) {
      grad_bias = grads[0]
                      .reshape({-1, grads[0].size(-1)})
                      .sum(0,
                           /*keepdim=*/false,
                           context->saved_data["dtype"].toScalarType());
    }
    return {grads[0], grad_bias};
  }
};

}  // namespace

Linear::Linear(const LinearOptions& options)
    : weight(make_slot(
          "weight", {options.out_features, options.in_features}, options.role)),
      bias(options.has_bias
               ? make_slot("bias", {options.out_features}, ParameterRole::kBias)
               : nullptr),
      owns_weight_(true) {}

Linear::Linear(std::shared_ptr<ParameterSlot> shared_weight)
    : weight(std::move(shared_weight)), owns_weight_(false) {}

std::vector<ParameterSlot*> Linear::own_slots() {
  std::vector<ParameterSlot*> slots;
  if (owns_weight_) {
    slots.push_back(weight.get());
  }
  if (bias) {
    slots.push_back(bias.get());
  }
  return slots;
}

Redo Linear::with_on_input(const at::Tensor& input, const Redo& redo) const {
  if (!on_input || (!redo.call && !redoes_on_input)) {
    return redo;
  }
  if (!redo.call) {
    return {input, on_input};
  }
  return {redo.kept,
          [call = redo.call, boundary = on_input](const at::Tensor& kept) {
            return boundary(call(kept));
          }};
}

at::Tensor Linear::forward(const at::Tensor& input, const Redo& redo) {
  TRIAX_CHECK(weight->tensor.defined(), weight->layout.name, " has no storage");
  const at::Tensor x = on_input ? on_input(input) : input;
  const at::ScalarType dtype =
      matmul_dtype.value_or(weight->tensor.scalar_type());
  at::Tensor y = Product::apply(
      x, weight->tensor, dtype, with_on_input(input, redo), on_weight_gradient);
  if (on_output) {
    y = on_output(y);
  }
  return bias ? AddBias::apply(y, bias->tensor) : y;
}

at::Tensor weight_gradient(const at::Tensor& input,
                           const at::Tensor& grad_output,
                           at::ScalarType dtype) {
  const at::Tensor x = input.reshape({-1, input.size(-1)});
  const at::Tensor grad = grad_output.reshape({-1, grad_output.size(-1)});
  return at::mm(grad.t(), x.to(grad.scalar_type())).to(dtype);
}

}  // namespace triax
