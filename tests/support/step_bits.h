// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "tests/support/layout_run.h"

namespace triax {

/// What a rank has after two steps.
struct RankEnd {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<at::Tensor> tensors;  // gradients and weights
};

/// By rank. `at_end` is called on every rank, a thread each.
std::vector<RankEnd> train_two_steps(
    const Overrides& overrides,
    const std::function<void(Trainer&, DeviceMesh&)>& at_end = {});

/// Loss, norm, gradients and weights, bit by bit.
void expect_same_bits(const std::vector<RankEnd>& a,
                      const std::vector<RankEnd>& b);

}  // namespace triax
