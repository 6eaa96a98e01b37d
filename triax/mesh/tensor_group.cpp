// SPDX-License-Identifier: Apache-2.0
#include "triax/mesh/tensor_group.h"

#include <algorithm>
#include <vector>

#include "triax/base/error.h"

namespace triax {

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::kFloat64;
    case at::kFloat:
      return DType::kFloat32;
    case at::kBFloat16:
      return DType::kBfloat16;
    case at::kHalf:
      return DType::kFloat16;
    case at::kLong:
      return DType::kInt64;
    default:
      throw Error("tensors of type ",
                  c10::toString(type),
                  " do not travel between ranks; use fp64, fp32, bf16, fp16 "
                  "or int64");
  }
}

Buffer as_buffer(const at::Tensor& tensor) {
  TRIAX_CHECK(tensor.is_contiguous(), "a buffer must be contiguous");
  return {tensor.data_ptr(), tensor.numel(), to_dtype(tensor.scalar_type())};
}

void sum_over(Group& group, std::span<double> values, CallSite site) {
  group.all_reduce(
      {values.data(), static_cast<int64_t>(values.size()), DType::kFloat64},
      ReduceOp::kSum,
      site);
}

void sum_over(Group& group, std::span<ExactSum> sums, CallSite site) {
  std::vector<int64_t> words;
  for (ExactSum& sum : sums) {
    const std::span<int64_t> mine = sum.words();
    words.insert(words.end(), mine.begin(), mine.end());
  }
  group.all_reduce(
      {words.data(), static_cast<int64_t>(words.size()), DType::kInt64},
      ReduceOp::kSum,
      site);
  auto next = words.begin();
  for (ExactSum& sum : sums) {
    const std::span<int64_t> mine = sum.words();
    std::copy_n(next, mine.size(), mine.begin());
    next += static_cast<int64_t>(mine.size());
  }
}

double sum_over(Group& group, double value, CallSite site) {
  sum_over(group, {&value, 1}, site);
  return value;
}

double max_over(Group& group, double value, CallSite site) {
  group.all_reduce({&value, 1, DType::kFloat64}, ReduceOp::kMax, site);
  return value;
}

}  // namespace triax
