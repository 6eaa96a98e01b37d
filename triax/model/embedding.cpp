// SPDX-License-Identifier: Apache-2.0
#include "triax/model/embedding.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include "triax/base/error.h"
#include "triax/model/statistics_dtype.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kNotHere = -1;

/// Row `rows[i]` of the table, or zeros where it is kNotHere.
class Lookup : public torch::autograd::Function<Lookup> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& weight,
                            const at::Tensor& rows,
                            bool has_all) {
    context->save_for_backward({rows});
    context->saved_data["num_rows"] = weight.size(0);
    std::vector<int64_t> shape = rows.sizes().vec();
    shape.push_back(weight.size(1));
    const at::Tensor flat = rows.reshape(-1);
    if (has_all) {
      return at::_unsafe_view(weight.index_select(0, flat), shape);
    }
    at::Tensor found = weight.index_select(0, flat.clamp_min(0));
    found.masked_fill_(flat.lt(0).unsqueeze(1), 0);
    return at::_unsafe_view(found, shape);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor rows = context->get_saved_variables()[0];
    // An id that comes often would be summed in the rows' own type.
    const at::Tensor grad_weight = at::embedding_dense_backward(
        grads[0].to(statistics_dtype(grads[0].scalar_type())),
        rows,
        context->saved_data["num_rows"].toInt(),
        /*padding_idx=*/kNotHere,
        /*scale_grad_by_freq=*/false);
    return {grad_weight, at::Tensor(), at::Tensor()};
  }
};

void check_ids(const at::Tensor& ids, int64_t num_ids) {
  if (ids.numel() == 0) {
    return;
  }
  const auto [low, high] = at::aminmax(ids);
  const int64_t lowest = low.item<int64_t>();
  const int64_t highest = high.item<int64_t>();
  if (lowest < 0 || highest >= num_ids) {
    throw Error("id ",
                lowest < 0 ? lowest : highest,
                " is outside the table of ",
                num_ids,
                " rows; check that the data and the model have the same "
                "vocabulary and length");
  }
}

}  // namespace

Embedding::Embedding(const EmbeddingOptions& options)
    : num_valid(options.num_ids),
      weight(make_slot(
          "weight", {options.num_ids, options.features}, options.role)),
      num_ids_(options.num_ids) {}

at::Tensor Embedding::forward(const at::Tensor& ids) {
  TRIAX_CHECK(weight->tensor.defined(), weight->layout.name, " has no storage");
  check_ids(ids, num_ids_);
  const bool has_all = first_row == 0 && num_valid == num_ids_;
  at::Tensor rows = ids;
  if (!has_all) {
    rows = ids - first_row;
    rows.masked_fill_(rows.lt(0).logical_or_(rows.ge(num_valid)), kNotHere);
  }
  const at::Tensor found = Lookup::apply(weight->tensor, rows, has_all);
  return on_output ? on_output(found) : found;
}

}  // namespace triax
