// SPDX-License-Identifier: Apache-2.0
#include "triax/model/loss.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "triax/base/error.h"
#include "triax/model/statistics_dtype.h"

namespace triax {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunkElements = 1 << 18;  // temporaries fit the cache

// N tokens, C = num_columns, V = vocab_size. Columns are the valid ones.
struct Tokens {
  at::Tensor columns;  // [N, num_valid], a view of the logits
  at::Tensor counted;  // [N] bool
  at::Tensor is_here;  // [N] bool: the label is one of the columns
  at::Tensor column;   // [N] int64: which, 0 where it is not here
};

/// Calls work(first, count) for chunks of rows.
template <class Work>
void for_each_chunk(const at::Tensor& columns, const Work& work) {
  const int64_t width = std::max<int64_t>(1, columns.size(1));
  const int64_t rows = std::max<int64_t>(1, kChunkElements / width);
  for (int64_t first = 0; first < columns.size(0); first += rows) {
    work(first, std::min(rows, columns.size(0) - first));
  }
}

Tokens make_tokens(const at::Tensor& logits,
                   const at::Tensor& labels,
                   int64_t first_vocab,
                   int64_t num_valid) {
  Tokens tokens;
  tokens.columns =
      logits.reshape({-1, logits.size(-1)}).narrow(1, 0, num_valid);
  const at::Tensor flat = labels.reshape(-1);
  const at::Tensor column = flat - first_vocab;
  tokens.counted = flat.ne(kIgnoredLabel);
  tokens.is_here = column.ge(0).logical_and_(column.lt(num_valid));
  tokens.is_here.logical_and_(tokens.counted);
  tokens.column = column.masked_fill(tokens.is_here.logical_not(), 0);
  return tokens;
}

at::Tensor largest_logit(const Tokens& tokens, at::ScalarType dtype) {
  if (tokens.columns.size(1) == 0) {
    return at::full({tokens.columns.size(0)},
                    -std::numeric_limits<double>::infinity(),
                    dtype);
  }
  return at::amax(tokens.columns, 1).to(dtype);
}

/// What the holders of the vocabulary add up, each [N], all less `largest`.
struct Sums {
  explicit Sums(int64_t num_tokens, at::ScalarType dtype)
      : all(at::zeros({3 * num_tokens + 1}, dtype)),
        exponentials(all.narrow(0, 0, num_tokens)),
        label_logit(all.narrow(0, num_tokens, num_tokens)),
        logits(all.narrow(0, 2 * num_tokens, num_tokens)),
        num_columns(all.narrow(0, 3 * num_tokens, 1)) {}

  at::Tensor all;
  at::Tensor exponentials;
  at::Tensor label_logit;
  at::Tensor logits;       // over all columns, for label smoothing
  at::Tensor num_columns;  // [1]: V, when the parts fit
};

Sums sum_columns(const Tokens& tokens, const at::Tensor& largest) {
  const at::ScalarType dtype = largest.scalar_type();
  const int64_t width = tokens.columns.size(1);
  Sums sums(tokens.columns.size(0), dtype);
  sums.num_columns.fill_(width);
  if (width == 0) {
    return sums;
  }
  for_each_chunk(tokens.columns, [&](int64_t first, int64_t count) {
    const auto rows = [&](const at::Tensor& t) {
      return t.narrow(0, first, count);
    };
    at::Tensor less =
        at::sub(rows(tokens.columns).to(dtype), rows(largest).unsqueeze(1));
    rows(sums.label_logit)
        .copy_(less.gather(1, rows(tokens.column).unsqueeze(1)).squeeze(1))
        .mul_(rows(tokens.is_here));
    rows(sums.logits).copy_(less.sum(1));
    rows(sums.exponentials).copy_(less.exp_().sum(1));
  });
  return sums;
}

void check_vocabulary(double total, const LossOptions& options) {
  if (total != static_cast<double>(options.vocab_size)) {
    throw Error("the parts of the logits have ",
                total,
                " columns together and the vocabulary has ",
                options.vocab_size,
                "; give each holder its own part, not the gathered logits");
  }
}

class CrossEntropyFunction
    : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& logits,
                               const at::Tensor& labels,
                               const LossOptions& options) {
    const Tokens tokens =
        make_tokens(logits, labels, options.first_vocab, options.num_valid);
    at::Tensor largest =
        largest_logit(tokens, statistics_dtype(logits.scalar_type()));
    if (options.reduce_max) {
      options.reduce_max(largest);
    }
    Sums sums = sum_columns(tokens, largest);
    if (options.reduce_sum) {
      options.reduce_sum(sums.all);
    }
    check_vocabulary(sums.num_columns.item<double>(), options);

    const double smoothing = options.label_smoothing;
    const at::Tensor log_sum = sums.exponentials.log();
    const at::Tensor log_sum_exp = log_sum + largest;
    const at::Tensor likelihood = log_sum - sums.label_logit;
    at::Tensor losses = likelihood;
    if (smoothing != 0.0) {
      losses = log_sum - sums.label_logit * (1 - smoothing) -
               sums.logits * (smoothing / options.vocab_size);
    }
    if (options.z_loss != 0.0) {
      losses = losses + log_sum_exp.square() * options.z_loss;
    }
    const auto total = [&](const at::Tensor& per_token) {
      return at::where(tokens.counted, per_token, 0.0).sum(at::kDouble);
    };
    context->save_for_backward({logits, labels, log_sum_exp});
    context->saved_data["first_vocab"] = options.first_vocab;
    context->saved_data["num_valid"] = options.num_valid;
    context->saved_data["smoothing"] = smoothing;
    context->saved_data["evenly"] = smoothing / options.vocab_size;
    context->saved_data["z_loss"] = options.z_loss;
    variable_list results = {total(losses), total(likelihood)};
    context->mark_non_differentiable({results[1]});
    return results;
  }

  // d loss / d x_j = p_j (1 + 2 z log Σexp) − (1 − ε) [j = label] − ε / V.
  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto& data = context->saved_data;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    const at::Tensor& log_sum_exp = saved[2];
    const at::ScalarType dtype = log_sum_exp.scalar_type();
    const Tokens tokens = make_tokens(logits,
                                      saved[1],
                                      data["first_vocab"].toInt(),
                                      data["num_valid"].toInt());
    const at::Tensor weight = grads[0].to(dtype) * tokens.counted;
    const at::Tensor slope =
        (log_sum_exp * (2 * data["z_loss"].toDouble()) + 1).mul_(weight);
    const at::Tensor target =
        weight * tokens.is_here * (data["smoothing"].toDouble() - 1);
    const at::Tensor evenly = weight * data["evenly"].toDouble();

    const at::Tensor grad =
        at::empty_like(logits, at::MemoryFormat::Contiguous);
    const at::Tensor grad_rows = grad.view({-1, logits.size(-1)});
    const int64_t width = tokens.columns.size(1);
    grad_rows.narrow(1, width, grad_rows.size(1) - width).zero_();
    if (width == 0) {
      return {grad, at::Tensor(), at::Tensor()};
    }
    for_each_chunk(tokens.columns, [&](int64_t first, int64_t count) {
      const auto rows = [&](const at::Tensor& t) {
        return t.narrow(0, first, count).unsqueeze(1);
      };
      at::Tensor part =
          at::sub(tokens.columns.narrow(0, first, count).to(dtype),
                  rows(log_sum_exp))
              .exp_()
              .mul_(rows(slope))
              .sub_(rows(evenly));
      part.scatter_add_(1, rows(tokens.column), rows(target));
      grad_rows.narrow(0, first, count).narrow(1, 0, width).copy_(part);
    });
    return {grad, at::Tensor(), at::Tensor()};
  }
};

void check_arguments(const at::Tensor& logits,
                     const at::Tensor& labels,
                     const LossOptions& options) {
  TRIAX_CHECK(logits.dim() == 3 && labels.dim() == 2 &&
                  logits.size(0) == labels.size(0) &&
                  logits.size(1) == labels.size(1) &&
                  labels.scalar_type() == at::kLong,
              "logits [B, S, V], labels [B, S] int64");
  if (logits.size(2) != options.num_columns ||
      options.num_valid > options.num_columns) {
    throw Error("the logits have ",
                logits.size(2),
                " columns and this part of the vocabulary has ",
                options.num_columns,
                ", ",
                options.num_valid,
                " of them valid; give each holder its own part, not the "
                "gathered logits");
  }
  const at::Tensor outside = labels.lt(0)
                                 .logical_or_(labels.ge(options.vocab_size))
                                 .logical_and_(labels.ne(kIgnoredLabel));
  if (outside.any().item<bool>()) {
    throw Error("a label is outside the vocabulary of ",
                options.vocab_size,
                "; labels are ids, or ",
                kIgnoredLabel,
                " for tokens that do not count");
  }
}

}  // namespace

LossResult cross_entropy(const at::Tensor& logits,
                         const at::Tensor& labels,
                         const LossOptions& options) {
  check_arguments(logits, labels, options);
  const variable_list results =
      CrossEntropyFunction::apply(logits, labels, options);
  return {results[0], results[1]};
}

}  // namespace triax
