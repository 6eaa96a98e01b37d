// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "triax/comm/group.h"

namespace triax {

/// Runs `body` on `world_size` ranks, each a thread with its world group, and
/// waits for all. The first rank's error ends the others and is thrown here.
void run_ranks(int world_size,
               const std::function<void(std::unique_ptr<Group> world)>& body);

}  // namespace triax
