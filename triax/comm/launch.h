// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triax/comm/launch_link.h"

namespace triax {

struct LaunchOptions {
  /// The program that forks the ranks (see fork_ranks.h): find_run_program().
  /// With a function in its place, only its name in messages.
  std::string program;
  /// Without the program's own name.
  std::vector<std::string> arguments = {};
  int world_size = 1;
  /// A rank that stays stopped (SIGSTOP) this long ends the run. 0: never.
  double deadline_seconds = 60.0;
  /// Where ranks write their logs; fork_ranks() makes it. Empty: no logs.
  std::string log_dir = {};
  /// From the request to stop until the ranks are killed.
  double grace_seconds = 60.0;
};

/// Runs a program of `world_size` ranks and watches it; returns its exit code:
/// the program's own 0, 1 or 2; 1 also when a rank failed, died or hangs; 130
/// when it was interrupted. What went wrong is one entry of the log, on
/// stderr, however many ranks it reached.
///
/// - A program that ends with 0 and never started some rank has failed.
/// - A rank that died is named with its coordinates, pid, signal or exit code,
///   last operation and the end of its log; one that threw, with its text.
///   The others get half a second to leave by the same Error, and are killed;
///   so it is with every failure below.
/// - What Board::diagnose() finds in two looks, 0.2 s apart, ends the run.
/// - A stopped rank is a warning within a second, and an end at the deadline.
/// - The first SIGINT, SIGTERM or SIGHUP (where it is not ignored) asks the
///   ranks to stop (stop_requested()); a second one, or the end of the grace,
///   kills them.
///
/// No process outlives this one, not even when it gets SIGKILL; the board has
/// no name, so nothing is left in /dev/shm. Call from the main thread of a
/// process without other children: what is left of them is killed. Throws
/// Error when the program cannot be started.
int launch(const LaunchOptions& options);

/// The same with ranks_parent(link) in a fork of this process in place of a
/// program: it forks the ranks and returns the exit code. Call where there is
/// one thread. start_ranks() is made of it.
int launch(const LaunchOptions& options,
           const std::function<int(const LaunchLink& link)>& ranks_parent);

/// libexec/triax-run beside the folder of this executable, or what TRIAX_RUN
/// names. Throws Error when it is not there.
std::string find_run_program();

}  // namespace triax
