// SPDX-License-Identifier: Apache-2.0
#include "triax/schedule/action.h"

namespace triax {

namespace {

const char* prefix(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReceiveActivation:
      return "rA";
    case ActionKind::kForward:
      return "F";
    case ActionKind::kSendActivation:
      return "sA";
    case ActionKind::kReceiveGradient:
      return "rG";
    case ActionKind::kBackward:
      return "B";
    case ActionKind::kSendGradient:
      return "sG";
  }
  return "?";
}

}  // namespace

std::string to_string(const Action& action) {
  std::string text = prefix(action.kind) + std::to_string(action.microbatch);
  if (action.chunk != 0) {
    text += "." + std::to_string(action.chunk);
  }
  return text;
}

}  // namespace triax
