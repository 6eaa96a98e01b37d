// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "triax/base/exact_sum.h"
#include "triax/comm/group.h"
#include "triax/model/scalar_type.h"

namespace triax {

/// Throws Error for a type that does not travel between ranks.
DType to_dtype(at::ScalarType type);

/// The tensor's elements as a buffer. The tensor must be contiguous (checked)
/// and outlive the operation.
Buffer as_buffer(const at::Tensor& tensor);

// Group's operations on tensors: contiguous, of equal numel and dtype on
// every rank; see Group for who must call and what is thrown.
inline void all_reduce(Group& group,
                       const at::Tensor& tensor,
                       ReduceOp op = ReduceOp::kSum,
                       CallSite site = CallSite::current()) {
  group.all_reduce(as_buffer(tensor), op, site);
}

inline Work all_reduce_async(Group& group,
                             const at::Tensor& tensor,
                             ReduceOp op = ReduceOp::kSum,
                             CallSite site = CallSite::current()) {
  return group.all_reduce_async(as_buffer(tensor), op, site);
}

/// Sums each value over the group, in rank order.
void sum_over(Group& group,
              std::span<double> values,
              CallSite site = CallSite::current());
/// Adds each sum up over the group, without rounding.
void sum_over(Group& group,
              std::span<ExactSum> sums,
              CallSite site = CallSite::current());
double sum_over(Group& group,
                double value,
                CallSite site = CallSite::current());
double max_over(Group& group,
                double value,
                CallSite site = CallSite::current());

}  // namespace triax
