// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/comm/group.h"

namespace triax {

/// What a transport keeps of an operation under way.
struct Work::State {
  virtual ~State() = default;
  /// As Work::wait.
  virtual void wait() = 0;
  virtual bool is_done() const = 0;
};

}  // namespace triax
