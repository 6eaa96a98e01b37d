// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "triax/comm/board.h"
#include "triax/comm/group.h"

namespace triax {

struct StartOptions {
  /// Ranks, each a process of its own on this machine.
  int world_size = 1;
  /// An operation between ranks that saw no change for so long throws, naming
  /// who is missing; a rank that stays stopped (SIGSTOP) so long ends the run.
  double deadline_seconds = 60.0;
  /// From the request to stop (Ctrl-C) until ranks that go on are killed.
  double grace_seconds = 60.0;
  /// Where the ranks' logs go: LOG_DIR/rank0003.log, and what ranks other than
  /// 0 print. Empty: all ranks write to this process's stdout and stderr.
  std::string log_dir = {};
};

/// What a rank begins with.
struct StartedRank {
  /// All ranks. `world->rank()` tells this one's number.
  std::unique_ptr<Group> world;
  /// What messages about ranks are made of: set_step(), set_coord().
  std::shared_ptr<Board> board;
};

/// Runs body(rank) in `world_size` processes and waits for them; returns an
/// exit code for main(): the largest that a body returned, 1 when a rank threw,
/// died or hangs, 130 when the run was interrupted. What went wrong is one
/// entry of the log, on stderr, however many ranks it reached.
///
///     int main() {
///       return triax::start_ranks({.world_size = 4},
///                                 [](triax::StartedRank rank) {
///         double number = rank.world->rank();
///         rank.world->all_reduce({&number, 1, triax::DType::kFloat64});
///         return number == 6.0 ? 0 : 1;
///       });
///     }
///
/// The ranks are forks of this process: what it read before is shared, and
/// what a rank changes is its own. So call it with one thread, before the first
/// operation of LibTorch (declaring tensors is one) and before any thread is
/// started: Error otherwise. The process must have no other children.
///
/// In a rank: what body throws ends the run, with its text. Ctrl-C and SIGTERM
/// only make stop_requested() (fork_ranks.h) true, so a loop that can stop
/// looks there, and all ranks agree before they leave it; others are killed
/// after the grace, or by a second Ctrl-C. LibTorch uses a thread for each core
/// in every rank unless at::set_num_threads() says less. A rank ends without
/// running the destructors of statics. See launch() (launch.h) for all that is
/// watched.
int start_ranks(const StartOptions& options,
                const std::function<int(StartedRank rank)>& body);

}  // namespace triax
