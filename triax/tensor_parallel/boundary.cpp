// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/boundary.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "triax/base/error.h"
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

/// Every rank's [B, S / n, H], in rank order along the sequence.
at::Tensor gathered(const at::Tensor& part, Group& group) {
  const int64_t n = group.size();
  const at::Tensor mine = part.contiguous();
  const at::Tensor all =
      at::empty({n, part.size(0), part.size(1), part.size(2)}, part.options());
  group.all_gather(as_buffer(mine), as_buffer(all));
  return all.transpose(0, 1).reshape(
      {part.size(0), n * part.size(1), part.size(2)});
}

/// This rank's part of the sum of every rank's [B, S, H].
at::Tensor scattered(const at::Tensor& whole, Group& group) {
  const int64_t n = group.size();
  TRIAX_CHECK(whole.size(1) % n == 0,
              "a sequence of ",
              whole.size(1),
              " over ",
              n,
              " ranks");
  const int64_t length = whole.size(1) / n;
  const at::Tensor parts =
      whole.reshape({whole.size(0), n, length, whole.size(2)})
          .transpose(0, 1)
          .contiguous();
  const at::Tensor mine =
      at::empty({whole.size(0), length, whole.size(2)}, whole.options());
  group.reduce_scatter(as_buffer(parts), as_buffer(mine));
  return mine;
}

using Collective = at::Tensor (*)(const at::Tensor&, Group&);

/// The two are each other's gradient.
template <Collective kForward, Collective kBackward>
struct SequenceBoundary
    : torch::autograd::Function<SequenceBoundary<kForward, kBackward>> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            int64_t group) {
    context->saved_data["group"] = group;
    return kForward(x, *group_of(context));
  }
  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    return {kBackward(gradients[0], *group_of(context)), at::Tensor()};
  }
};

/// A boundary over the group by an autograd Function of (x, group).
template <class Function>
std::function<at::Tensor(const at::Tensor&)> boundary(Group& group) {
  return [handle = reinterpret_cast<int64_t>(&group)](const at::Tensor& x) {
    return Function::apply(x, handle);
  };
}

}  // namespace

std::function<at::Tensor(const at::Tensor&)> copy_to(Group& group) {
  return boundary<CopyTo>(group);
}

std::function<at::Tensor(const at::Tensor&)> reduce_from(Group& group) {
  return boundary<ReduceFrom>(group);
}

std::function<at::Tensor(const at::Tensor&)> gather_sequence(Group& group) {
  return boundary<SequenceBoundary<gathered, scattered>>(group);
}

std::function<at::Tensor(const at::Tensor&)> scatter_sequence(Group& group) {
  return boundary<SequenceBoundary<scattered, gathered>>(group);
}

}  // namespace triax
