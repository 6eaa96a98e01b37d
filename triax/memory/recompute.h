// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace triax {

/// A piece of a model. Must compute the same bits whenever it is called with
/// the same input: dropout by sample and step, no counters.
using Segment = std::function<at::Tensor(const at::Tensor& input)>;

/// segment(input), of which nothing but the input is kept for backward:
/// backward runs the segment again with its graph, and then that graph's
/// backward, which adds to the gradients of the parameters that the segment
/// uses (Chen et al. 2016, section 3). Loss and gradients have the bits of
/// segment(input).
///
/// `is_trained` tells whether the segment has parameters to train; without
/// them, and with an input that needs no gradient, there is nothing to come
/// back for. Without a graph (no-grad mode) it is segment(input). What the
/// segment refers to must live until its backward is over. Every rank of a
/// group that the segment communicates in must do both.
at::Tensor recompute(const at::Tensor& input,
                     const Segment& segment,
                     bool is_trained);

}  // namespace triax
