// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace triax {

/// One thing a pipeline rank does. Activations flow to the next stage,
/// gradients of activations to the previous one.
enum class ActionKind {
  kReceiveActivation,  // from the previous stage
  kForward,
  kSendActivation,   // to the next stage
  kReceiveGradient,  // from the next stage
  kBackward,
  kSendGradient,  // to the previous stage
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int microbatch = 0;
  int chunk = 0;  // virtual stage on this rank; 0 unless interleaved

  bool operator==(const Action&) const = default;
};

/// "F3", "B0", "rA2", "sA2", "rG1", "sG1"; with a chunk "F3.1".
std::string to_string(const Action& action);

}  // namespace triax
