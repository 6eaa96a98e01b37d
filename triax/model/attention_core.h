// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace triax {

/// The heads in one row of fused queries, keys and values, in that order.
struct HeadCounts {
  int64_t num_queries = 0;
  int64_t num_keys = 0;  // and as many values; divides num_queries
  int64_t head_dim = 0;
};

// Causal attention, softmax(q kᵀ / √D) v. qkv is [B, S, (q + 2 k) · D], the
// result [B, S, q · D]; query head i reads key head i / (q / k). With
// document_ids [B, S] a token attends only within its own document; undefined:
// to all before it.

/// LibTorch's flash kernel. Keeps qkv, the result, and one number a row.
at::Tensor attend(const at::Tensor& qkv,
                  const HeadCounts& heads,
                  const at::Tensor& document_ids);

/// With dropout on the probabilities: those where `keep` [B, q, S, S] is true
/// are scaled by 1 / (1 − probability), the others zeroed. Keeps qkv, the
/// probabilities and `keep`.
at::Tensor attend_with_dropout(const at::Tensor& qkv,
                               const HeadCounts& heads,
                               const at::Tensor& document_ids,
                               const at::Tensor& keep,
                               double probability);

}  // namespace triax
