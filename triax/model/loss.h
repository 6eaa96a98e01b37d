// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "triax/base/ignored_label.h"

namespace triax {

struct LossOptions {
  /// The whole vocabulary, V.
  int64_t vocab_size = 0;
  /// The columns here: column j is id first_vocab + j for j < num_valid; the
  /// others up to num_columns, the width of the logits, are padding.
  int64_t first_vocab = 0;
  int64_t num_valid = 0;
  int64_t num_columns = 0;
  /// Share of the target spread evenly over all V ids.
  double label_smoothing = 0.0;
  /// Weight of the square of the log of the sum of exponentials.
  double z_loss = 0.0;
  /// In place over all holders of the vocabulary; empty: all of it is here.
  std::function<void(at::Tensor&)> reduce_max;
  std::function<void(at::Tensor&)> reduce_sum;
};

struct LossResult {
  /// 0-dim fp64 with its gradient: the sum over counted tokens of
  /// (1 − ε)(−log p[label]) + ε mean over V of (−log p) + z · log²Σexp.
  at::Tensor loss;
  /// 0-dim fp64 without a gradient: the sum of −log p[label] alone.
  at::Tensor negative_log_likelihood;
};

/// Cross-entropy of logits [B, S, num_columns] against labels [B, S] int64,
/// over a vocabulary that may be held in parts: every holder must call, with
/// the same labels, and gets the same loss and its part of the gradient.
/// Nothing of the logits' size is exchanged. Sums are taken in fp32, or fp64
/// for fp64; over tokens in fp64. Padding columns count for nothing and get a
/// zero gradient. Keeps the logits and one number a token for backward.
/// Throws Error when the widths do not add up to the vocabulary, as when
/// every holder is given the whole logits.
LossResult cross_entropy(const at::Tensor& logits,
                         const at::Tensor& labels,
                         const LossOptions& options);

}  // namespace triax
