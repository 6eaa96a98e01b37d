// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triax/base/descriptor.h"

namespace triax {

struct Command {
  std::string program;
  std::vector<std::string> arguments = {};  // without argv[0]
  std::vector<std::string> environment = {};
  /// Left open in the new process; everything else that is marked is closed.
  std::vector<int> inherited = {};
};

/// Starts a process that gets SIGKILL when the calling thread ends, ignores
/// SIGINT, SIGTERM and SIGHUP (a Ctrl-C reaches the whole process group) and
/// blocks no signal. Throws Error when the program cannot be executed.
pid_t start_process(const Command& command);

/// Forks a process that runs body(), ends by _exit with what that returns, and
/// otherwise lives as one of start_process(). What body throws is logged, and
/// the code is 1. Call where there is one thread. Throws Error when there can
/// be no process.
pid_t fork_process(const std::function<int()>& body);

/// Throws Error where this process has more than one thread.
void check_one_thread();

/// A descriptor that polls readable once `pid` has ended; not open when there
/// is no such process.
Descriptor open_process(pid_t pid);
void signal_process(const Descriptor& process, int signal);
bool has_ended(const Descriptor& process);

struct ProcessState {
  char state = '?';  // R S D T t Z …, as in /proc/PID/stat
  pid_t parent = 0;
};

/// Empty when there is no such process.
std::optional<ProcessState> read_process_state(pid_t pid);

/// Kills and reaps every child of the calling process, also those that it
/// inherits as a subreaper while this goes on. Gives up after five seconds (a
/// process in an uninterruptible sleep); returns the pids that are left.
std::vector<pid_t> kill_children();

/// "was killed by signal 9 (SIGKILL)" with what that often means; "exited with
/// code 3".
std::string describe_wait_status(int wait_status);

/// The last `max_lines` lines of a file, of its last 8 KiB at most; empty when
/// it cannot be read.
std::vector<std::string> read_tail(const std::string& path, int max_lines);

/// Seconds of a clock that never jumps.
double monotonic_seconds();

}  // namespace triax
