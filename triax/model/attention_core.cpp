// SPDX-License-Identifier: Apache-2.0
#include "triax/model/attention_core.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Shapes: B batch, S sequence, D head_dim, q and k heads.
struct QueryKeyValue {
  at::Tensor query;  // [B, q, S, D], a view
  at::Tensor key;    // [B, k, S, D]
  at::Tensor value;  // [B, k, S, D]
};

QueryKeyValue split(const at::Tensor& qkv, const HeadCounts& heads) {
  const auto part = [&](int64_t first, int64_t count) {
    return qkv.narrow(2, first * heads.head_dim, count * heads.head_dim)
        .view({qkv.size(0), qkv.size(1), count, heads.head_dim})
        .transpose(1, 2);
  };
  return {part(0, heads.num_queries),
          part(heads.num_queries, heads.num_keys),
          part(heads.num_queries + heads.num_keys, heads.num_keys)};
}

/// [B, n, S, D] → [B, S, n · D].
at::Tensor join_heads(const at::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), -1});
}

/// [B, 1, S, S]: true where a query may see a key.
at::Tensor visible(const at::Tensor& document_ids, int64_t length) {
  const at::Tensor causal = at::ones({length, length}, at::kBool).tril_();
  if (!document_ids.defined()) {
    return causal.view({1, 1, length, length});
  }
  return at::eq(document_ids.unsqueeze(2), document_ids.unsqueeze(1))
      .logical_and_(causal)
      .unsqueeze(1);
}

/// What the flash kernel adds to the scores; nothing for plain causality.
std::optional<at::Tensor> score_mask(const at::Tensor& document_ids,
                                     at::ScalarType dtype) {
  if (!document_ids.defined()) {
    return std::nullopt;
  }
  const int64_t batch = document_ids.size(0);
  const int64_t length = document_ids.size(1);
  return at::zeros({batch, 1, length, length}, dtype)
      .masked_fill_(visible(document_ids, length).logical_not(),
                    -std::numeric_limits<double>::infinity());
}

double score_scale(const HeadCounts& heads) {
  return 1.0 / std::sqrt(static_cast<double>(heads.head_dim));
}

void save_heads(AutogradContext* context, const HeadCounts& heads) {
  context->saved_data["queries"] = heads.num_queries;
  context->saved_data["keys"] = heads.num_keys;
  context->saved_data["head_dim"] = heads.head_dim;
}

HeadCounts load_heads(AutogradContext* context) {
  return {context->saved_data["queries"].toInt(),
          context->saved_data["keys"].toInt(),
          context->saved_data["head_dim"].toInt()};
}

class FlashFunction : public torch::autograd::Function<FlashFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& qkv,
                            const HeadCounts& heads,
                            const std::optional<at::Tensor>& given_ids) {
    const at::Tensor document_ids = given_ids.value_or(at::Tensor());
    const QueryKeyValue in = split(qkv, heads);
    const auto [out, log_sum_exp] =
        at::_scaled_dot_product_flash_attention_for_cpu(
            in.query,
            in.key,
            in.value,
            /*dropout_p=*/0.0,
            /*is_causal=*/!document_ids.defined(),
            score_mask(document_ids, qkv.scalar_type()));
    save_heads(context, heads);
    context->save_for_backward({qkv, out, log_sum_exp, document_ids});
    return join_heads(out);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const HeadCounts heads = load_heads(context);
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const at::Tensor& document_ids = saved[3];
    const QueryKeyValue in = split(qkv, heads);
    const at::Tensor grad_out =
        grads[0]
            .reshape({qkv.size(0), qkv.size(1), heads.num_queries, -1})
            .transpose(1, 2);
    const auto [grad_query, grad_key, grad_value] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            grad_out,
            in.query,
            in.key,
            in.value,
            saved[1],
            saved[2],
            /*dropout_p=*/0.0,
            /*is_causal=*/!document_ids.defined(),
            score_mask(document_ids, qkv.scalar_type()));
    const at::Tensor grad_qkv = at::empty_like(qkv);
    const QueryKeyValue out = split(grad_qkv, heads);
    out.query.copy_(grad_query);
    out.key.copy_(grad_key);
    out.value.copy_(grad_value);
    return {grad_qkv, at::Tensor(), at::Tensor()};
  }
};

/// [B, k, S, D] → [B, k, group, S, D] beside queries [B, k, group, S, D].
at::Tensor beside_group(const at::Tensor& x) {
  return x.unsqueeze(2);
}

/// [B, q, ..] → [B, k, group, ..].
at::Tensor group_queries(const at::Tensor& x, int64_t num_keys) {
  return x.unflatten(1, {num_keys, -1});
}

class DropoutAttentionFunction
    : public torch::autograd::Function<DropoutAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& qkv,
                            const HeadCounts& heads,
                            const std::optional<at::Tensor>& document_ids,
                            const at::Tensor& keep,
                            double scale) {
    const QueryKeyValue in = split(qkv, heads);
    // Scaled before the product, which could leave fp16's range.
    at::Tensor scores =
        at::matmul(group_queries(at::mul(in.query, score_scale(heads)),
                                 heads.num_keys),
                   beside_group(in.key).transpose(-2, -1))
            .flatten(1, 2);
    scores.masked_fill_(
        visible(document_ids.value_or(at::Tensor()), qkv.size(1)).logical_not(),
        -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities =
        at::_softmax(scores, -1, /*half_to_float=*/false);
    const at::Tensor dropped = at::mul(probabilities, keep).mul_(scale);
    save_heads(context, heads);
    context->saved_data["scale"] = scale;
    context->save_for_backward({qkv, probabilities, keep});
    return join_heads(at::matmul(group_queries(dropped, heads.num_keys),
                                 beside_group(in.value))
                          .flatten(1, 2));
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const HeadCounts heads = load_heads(context);
    const double scale = context->saved_data["scale"].toDouble();
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const at::Tensor& probabilities = saved[1];
    const at::Tensor& keep = saved[2];
    const QueryKeyValue in = split(qkv, heads);
    const at::Tensor grad_qkv = at::empty_like(qkv);
    const QueryKeyValue out = split(grad_qkv, heads);
    const at::Tensor grad_out = group_queries(
        grads[0]
            .reshape({qkv.size(0), qkv.size(1), heads.num_queries, -1})
            .transpose(1, 2),
        heads.num_keys);

    const at::Tensor dropped = at::mul(probabilities, keep).mul_(scale);
    out.value.copy_(
        at::matmul(group_queries(dropped, heads.num_keys).transpose(-2, -1),
                   grad_out)
            .sum(2));
    const at::Tensor grad_dropped =
        at::matmul(grad_out, beside_group(in.value).transpose(-2, -1))
            .flatten(1, 2)
            .mul_(keep)
            .mul_(scale);
    const at::Tensor grad_scores =
        group_queries(at::_softmax_backward_data(
                          grad_dropped, probabilities, -1, qkv.scalar_type())
                          .mul_(score_scale(heads)),
                      heads.num_keys);
    out.query.copy_(
        at::matmul(grad_scores, beside_group(in.key)).flatten(1, 2));
    out.key.copy_(at::matmul(grad_scores.transpose(-2, -1),
                             group_queries(in.query, heads.num_keys))
                      .sum(2));
    return {grad_qkv, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// A Function's tensor arguments must be defined.
std::optional<at::Tensor> as_optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

at::Tensor attend(const at::Tensor& qkv,
                  const HeadCounts& heads,
                  const at::Tensor& document_ids) {
  return FlashFunction::apply(qkv, heads, as_optional(document_ids));
}

at::Tensor attend_with_dropout(const at::Tensor& qkv,
                               const HeadCounts& heads,
                               const at::Tensor& document_ids,
                               const at::Tensor& keep,
                               double probability) {
  return DropoutAttentionFunction::apply(
      qkv, heads, as_optional(document_ids), keep, 1.0 / (1.0 - probability));
}

}  // namespace triax
