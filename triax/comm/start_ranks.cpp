// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/start_ranks.h"

#include <errno.h>

#include "triax/comm/fork_ranks.h"
#include "triax/comm/launch.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/launch_process.h"
#include "triax/comm/local.h"

namespace triax {
namespace {

int fork_joined(const StartOptions& options,
                const LaunchLink& link,
                const std::function<int(StartedRank rank)>& body) {
  const std::shared_ptr<Board> board = Board::attach(link.board_fd);
  const auto world = make_local_world(
      options.world_size,
      {.deadline_seconds = options.deadline_seconds, .board = board});
  return fork_ranks(
      {.board = board, .log_dir = link.log_dir, .exit_fd = link.exit_fd},
      [&](int rank) {
        return body({.world = world->join(rank), .board = board});
      });
}

}  // namespace

int start_ranks(const StartOptions& options,
                const std::function<int(StartedRank rank)>& body) {
  check_one_thread();
  return launch(
      {.program = program_invocation_short_name,
       .world_size = options.world_size,
       .deadline_seconds = options.deadline_seconds,
       .log_dir = options.log_dir,
       .grace_seconds = options.grace_seconds},
      [&](const LaunchLink& link) { return fork_joined(options, link, body); });
}

}  // namespace triax
