// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/activation_offload.h"

#include <algorithm>

#include "triax/base/rounding.h"

namespace triax {
namespace {

constexpr int64_t kBlock = 4096;  // of the file
constexpr int64_t kMostWindow = 32 << 20;
constexpr int64_t kLeastBuffer = 64 << 10;
constexpr int64_t kMostBuffer = 4 << 20;
// With dropout and document masks a layer keeps fewer tensors, and so do the
// ends of a stage.
constexpr int64_t kTensorsOfALayer = 24;
constexpr int64_t kTensorsOfEnds = 24;

}  // namespace

ActivationOffload plan_activation_offload(int64_t kept_bytes,
                                          int num_microbatches,
                                          int num_layers) {
  const int64_t live = num_microbatches * kept_bytes;
  const int64_t tensors = kTensorsOfALayer * num_layers + kTensorsOfEnds;
  return {.microbatch_bytes =
              round_up(kept_bytes + kept_bytes / 16 + tensors * kBlock, kBlock),
          .num_microbatches = num_microbatches,
          .window_bytes =
              round_up(std::clamp(live / 8, kBlock, kMostWindow), kBlock),
          .buffer_bytes = round_up(
              std::clamp(live / 64, kLeastBuffer, kMostBuffer), kBlock)};
}

}  // namespace triax
