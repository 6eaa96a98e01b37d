// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/boundary.h"

#include <torch/csrc/autograd/custom_function.h>

#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Group* group_of(AutogradContext* context) {
  return reinterpret_cast<Group*>(context->saved_data["group"].toInt());
}

/// A copy that is summed over the group: autograd may still read the original.
at::Tensor summed(const at::Tensor& tensor, Group& group) {
  at::Tensor sum = tensor.clone(at::MemoryFormat::Contiguous);
  all_reduce(group, sum);
  return sum;
}

struct CopyTo : torch::autograd::Function<CopyTo> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            int64_t group) {
    context->saved_data["group"] = group;
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    return {summed(gradients[0], *group_of(context)), at::Tensor()};
  }
};

struct ReduceFrom : torch::autograd::Function<ReduceFrom> {
  static at::Tensor forward(AutogradContext*,
                            const at::Tensor& x,
                            int64_t group) {
    return summed(x, *reinterpret_cast<Group*>(group));
  }
  static variable_list backward(AutogradContext*, variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

std::function<at::Tensor(const at::Tensor&)> copy_to(Group& group) {
  const auto handle = reinterpret_cast<int64_t>(&group);
  return [handle](const at::Tensor& x) { return CopyTo::apply(x, handle); };
}

std::function<at::Tensor(const at::Tensor&)> reduce_from(Group& group) {
  const auto handle = reinterpret_cast<int64_t>(&group);
  return [handle](const at::Tensor& x) { return ReduceFrom::apply(x, handle); };
}

}  // namespace triax
