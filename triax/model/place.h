// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace triax {

/// Where a microbatch lies in the run. Dropout masks and rotary angles come
/// from it alone, so they do not depend on how the run is split.
struct Place {
  /// The number in the run of each of the B samples; needed for dropout.
  std::vector<int64_t> sample_ids;
  /// The position of the first token in its sample.
  int64_t first_position = 0;
  int64_t step = 0;
  uint64_t seed = 0;
  /// Without it nothing is dropped.
  bool is_training = false;
  /// [B, S] int64: a token attends only to tokens with its own number.
  /// Undefined: a sample is one document.
  at::Tensor document_ids;
};

}  // namespace triax
