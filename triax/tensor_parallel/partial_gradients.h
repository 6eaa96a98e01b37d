// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "triax/base/piece.h"
#include "triax/comm/group.h"
#include "triax/config/run_config.h"

namespace triax {

/// Sums the gradients of what several tp ranks hold while each sees only its
/// own part of the computation: KV heads fewer than tp, whose replicas serve
/// different query heads; and with sequence parallelism whatever is
/// replicated (norms, biases behind a sum, positions), since each rank sees
/// only its part of the sequence.
class PartialGradients {
 public:
  /// Every rank of `tp` must call: the replicas' group is split off it.
  PartialGradients(const ModelConfig& config, Group& tp, bool splits_sequence);

  /// Whether a parameter's gradient is a part until sum() was called.
  bool is_partial(const ParameterLayout& layout) const;
  /// `part` holds `elements` of a flattened gradient. Every replica must call
  /// with the same elements of the same parameters in the same order. Does
  /// nothing for layouts that are not partial.
  void sum(const at::Tensor& part,
           const Range& elements,
           const ParameterLayout& layout);

 private:
  Group& tp_;
  const bool splits_sequence_;
  std::unique_ptr<Group> replicas_;  // nullptr where every head has one rank
};

}  // namespace triax
