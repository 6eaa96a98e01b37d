// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "triax/base/log.h"
#include "triax/comm/board.h"

namespace triax {

struct ForkOptions {
  /// One rank is forked for each place on it.
  std::shared_ptr<Board> board;
  /// Each rank's log goes to LOG_DIR/rank0003.log (appended, mode 0600), and
  /// so do stdout and stderr of all ranks but 0. The folder is made. Empty:
  /// all ranks write to this process's stdout and stderr.
  std::string log_dir = {};
  LogLevel log_level = LogLevel::kInfo;
  /// LaunchLink::exit_fd; -1 without a front: then the error of the first
  /// failed rank is logged here.
  int exit_fd = -1;
};

/// Forks the ranks, runs body(rank) in each and waits for all; returns the
/// largest of their exit codes: what body returned, or 1 where it threw or
/// died. Call from a process with one thread, before the first operation of
/// LibTorch; what was loaded and read before is shared.
///
/// In a rank: the log has its number, stdin is empty but for rank 0, its pid
/// and in the end set_finished() are put on the board, stop signals only set
/// stop_requested() (SIGHUP is ignored: the front decides), and the kernel
/// kills it when this process ends. What body throws is put on the board, so
/// every rank throws it too. A rank that dies is put there by this process. A
/// rank ends with _exit: destructors of statics do not run, standard streams
/// are flushed. Five seconds after the first failure the ranks that still run
/// are killed. Throws Error when this process has several threads, a rank
/// cannot be forked or `log_dir` cannot be made; then no rank is left.
int fork_ranks(const ForkOptions& options,
               const std::function<int(int rank)>& body);

/// True once a stop was asked for: finish the step, save, return. Ranks learn
/// it at different steps, so agree on it (an all_reduce) before acting.
/// Async-signal-safe; set by SIGINT, SIGTERM and SIGUSR1.
bool stop_requested();

/// Makes SIGINT, SIGTERM and SIGUSR1 set stop_requested() and do nothing else.
/// fork_ranks() calls it in each rank; call it where ranks are not forked.
void install_stop_handlers();

/// "rank 2 (dp 0, pp 1, tp 0; pid 123) was killed by signal 9 (SIGKILL); last
/// operation: step 17, in all_reduce #412 of group tp at row.cpp:211".
std::string describe_death(const Board& board, int rank, int wait_status);

}  // namespace triax
