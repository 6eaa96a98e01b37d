// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/grad_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "triax/base/error.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

/// A shard of a gradient begins and ends between two blocks.
constexpr int64_t kBlock = kFlatAlignment;
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
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      lanes[lane] += lanes[lane + width];
    }
  }
  return lanes[0];
}

/// `values` holds elements from `first` on; adds those of `range`.
template <class T>
void add_range(ExactSum& sum,
               const T* values,
               int64_t first,
               const Range& range) {
  const int64_t end = range.start + range.length;
  for (int64_t start = range.start; start < end;) {
    const int64_t next = std::min(end, (start / kBlock + 1) * kBlock);
    sum.add(block_sum(values + (start - first), next - start));
    start = next;
  }
}

void add_squares(ExactSum& sum,
                 const at::Tensor& part,
                 int64_t first,
                 const Range& range) {
  TRIAX_CHECK(part.is_contiguous(), "squares are summed over whole rows");
  if (part.scalar_type() == at::kDouble) {
    add_range(sum, part.const_data_ptr<double>(), first, range);
    return;
  }
  TRIAX_CHECK(part.scalar_type() == at::kFloat, "gradients are fp32 or fp64");
  add_range(sum, part.const_data_ptr<float>(), first, range);
}

}  // namespace

double sum_of_squares(const at::Tensor& tensor) {
  ExactSum sum;
  add_squares(sum, tensor, 0, {0, tensor.numel()});
  return sum.value();
}

void add_owned_squares(ExactSum& sum,
                       const at::Tensor& part,
                       const Range& elements,
                       const ParameterLayout& layout) {
  TRIAX_CHECK(elements.start % kBlock == 0, elements.start);
  const auto is_owned = [](const Piece& piece) { return piece.replica == 0; };
  if (std::all_of(layout.pieces.begin(), layout.pieces.end(), is_owned)) {
    add_squares(sum, part, elements.start, elements);
    return;
  }
  for (const Piece& piece : layout.pieces) {
    if (is_owned(piece)) {
      const Range mine = intersection(stored_elements(piece, layout), elements);
      add_squares(sum, part, elements.start, mine);
    }
  }
}

double clip_factor(double norm, double max_norm) {
  if (!std::isfinite(norm)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace triax
