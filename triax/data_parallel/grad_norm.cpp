// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/grad_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "triax/base/error.h"

namespace triax {
namespace {

constexpr int64_t kBlock = 4096;
constexpr int kLanes = 16;

template <class T>
double block_sum(const T* values, int64_t count) {
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < count; ++i) {
    const double value = values[i];
    lanes[i % kLanes] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) {
    sum += lane;
  }
  return sum;
}

template <class T>
double blocked_sum(const T* values, int64_t numel) {
  double sum = 0;
  for (int64_t start = 0; start < numel; start += kBlock) {
    sum += block_sum(values + start, std::min(kBlock, numel - start));
  }
  return sum;
}

}  // namespace

double sum_of_squares(const at::Tensor& tensor) {
  TRIAX_CHECK(tensor.is_contiguous(), "sum_of_squares takes whole rows");
  if (tensor.scalar_type() == at::kDouble) {
    return blocked_sum(tensor.const_data_ptr<double>(), tensor.numel());
  }
  TRIAX_CHECK(tensor.scalar_type() == at::kFloat, "gradients are fp32 or fp64");
  return blocked_sum(tensor.const_data_ptr<float>(), tensor.numel());
}

double owned_sum_of_squares(const at::Tensor& gradient,
                            const ParameterLayout& layout) {
  const auto is_owned = [](const Piece& piece) { return piece.replica == 0; };
  if (std::all_of(layout.pieces.begin(), layout.pieces.end(), is_owned)) {
    return sum_of_squares(gradient);
  }
  double sum = 0;
  for (const Piece& piece : layout.pieces) {
    if (is_owned(piece)) {
      const Range rows = piece.stored_rows();
      sum += sum_of_squares(gradient.narrow(0, rows.start, rows.length));
    }
  }
  return sum;
}

double clip_factor(double norm, double max_norm) {
  if (!std::isfinite(norm)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace triax
