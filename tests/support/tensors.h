// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace triax {

/// Normal numbers that depend on `seed` alone.
at::Tensor random_tensor(at::IntArrayRef shape,
                         uint64_t seed,
                         at::ScalarType dtype = at::kDouble);

/// Ids in [0, num_ids) that depend on `seed` alone, int64.
at::Tensor random_ids(at::IntArrayRef shape, int64_t num_ids, uint64_t seed);

/// The largest difference between two elements; NaN counts as infinite.
double max_difference(const at::Tensor& a, const at::Tensor& b);

/// ‖a − b‖ / ‖b‖ in fp64.
double relative_difference(const at::Tensor& a, const at::Tensor& b);

/// Same shape, dtype and bits.
bool bits_equal(const at::Tensor& a, const at::Tensor& b);

using TensorFunction =
    std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The worst error of backward against central differences, over elements
/// spread evenly over each of the fp64 `inputs` (all of a small one), relative
/// to the largest gradient element (at least 1). The function's result is
/// weighed with fixed random numbers.
double gradient_error(const TensorFunction& function,
                      const std::vector<at::Tensor>& inputs);

/// Backward's gradients of the same weighed result, for comparison of two
/// functions.
std::vector<at::Tensor> gradients(const TensorFunction& function,
                                  const std::vector<at::Tensor>& inputs);

}  // namespace triax
