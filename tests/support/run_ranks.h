// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "triax/comm/board.h"
#include "triax/comm/group.h"

namespace triax {

/// Runs `body` on `world_size` ranks, each a thread with its world group, and
/// waits for all. The first rank's error ends the others and is thrown here.
void run_ranks(int world_size,
               const std::function<void(std::unique_ptr<Group> world)>& body);

/// The same for what also needs the world's board.
void run_ranks_on_board(
    int world_size,
    const std::function<void(std::unique_ptr<Group> world,
                             const std::shared_ptr<Board>& board)>& body);

}  // namespace triax
