// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/fork_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <vector>

#include "triax/base/error.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/launch_process.h"

namespace triax {
namespace {

constexpr double kUnwindSeconds = 5.0;

std::atomic<bool> is_stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void request_stop(int) {
  is_stop_requested.store(true);
}

void redirect(int fd, const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (file < 0 || dup2(file, fd) < 0) {
    throw Error(path, " cannot be opened: ", std::strerror(errno));
  }
  close(file);
}

void redirect_output(const ForkOptions& options, int rank) {
  if (rank != 0) {
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  }
  const std::string path = rank_log_path(options.log_dir, rank);
  if (rank != 0 && !path.empty()) {
    redirect(STDOUT_FILENO, path, O_WRONLY | O_CREAT | O_APPEND);
    redirect(STDERR_FILENO, path, O_WRONLY | O_CREAT | O_APPEND);
  }
  configure_log({.level = options.log_level,
                 .rank = rank,
                 .file = path,
                 .to_stderr = rank == 0 || path.empty()});
}

// The terminal gets the first error once, from the front; the file each.
void report(Board& board, int rank, const std::string& text) {
  board.fail(rank, text);
  write_log_file(LogLevel::kError, text);
}

int run_body(const ForkOptions& options,
             int rank,
             const std::function<int(int rank)>& body) {
  Board& board = *options.board;
  try {
    redirect_output(options, rank);
    const int code = body(rank);
    board.set_finished(rank);
    return code;
  } catch (const std::bad_alloc&) {
    report(board, rank, "out of memory (std::bad_alloc)");
  } catch (const std::exception& error) {
    report(board, rank, error.what());
  } catch (...) {
    report(board, rank, "an exception of unknown type");
  }
  return 1;
}

[[noreturn]] void become_rank(const ForkOptions& options,
                              int rank,
                              pid_t parent,
                              const std::function<int(int rank)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  install_stop_handlers();
  if (options.exit_fd >= 0) {
    close(options.exit_fd);
  }
  options.board->set_pid(rank, getpid());
  const int code = run_body(options, rank, body);
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  _exit(code >= 0 && code < 256 ? code : 1);
}

/// The parent's view of the ranks it forked.
class Ranks {
 public:
  explicit Ranks(const ForkOptions& options) : options_(options) {}

  void fork_all(const std::function<int(int rank)>& body);
  int wait_all();

 private:
  void kill_all() const;
  void take(int rank, int wait_status);
  bool wait_one(bool may_block);

  const ForkOptions& options_;
  std::vector<pid_t> pids_;  // by rank; 0 once it was reaped
  size_t num_running_ = 0;
  int worst_ = 0;
  double kill_at_ = 0.0;  // 0: no rank failed
};

void Ranks::fork_all(const std::function<int(int rank)>& body) {
  const pid_t parent = getpid();
  for (int rank = 0; rank < options_.board->world_size(); ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      become_rank(options_, rank, parent, body);
    }
    if (pid < 0) {
      const int fault = errno;
      kill_all();
      while (wait(nullptr) > 0 || errno == EINTR) {
      }
      throw Error("rank ",
                  rank,
                  " of ",
                  options_.board->world_size(),
                  " cannot be started: ",
                  std::strerror(fault),
                  "; see `ulimit -u` and the free memory, or use fewer ranks");
    }
    pids_.push_back(pid);
  }
  num_running_ = pids_.size();
}

void Ranks::kill_all() const {
  for (const pid_t pid : pids_) {
    if (pid > 0) {
      kill(pid, SIGKILL);
    }
  }
}

void Ranks::take(int rank, int wait_status) {
  Board& board = *options_.board;
  pids_[static_cast<size_t>(rank)] = 0;
  --num_running_;
  RankExit message{rank, wait_status, RankEnd::kDied};
  if (WIFEXITED(wait_status) && board.error(rank)) {
    message.end = RankEnd::kReported;
  } else if (WIFEXITED(wait_status) && board.is_finished(rank)) {
    message.end = RankEnd::kReturned;
  }
  // First the message, then the board: the front relies on it.
  if (options_.exit_fd >= 0) {
    write_whole(options_.exit_fd,
                {reinterpret_cast<const char*>(&message), sizeof message});
  }
  if (message.end == RankEnd::kDied) {
    board.fail(rank, describe_death(board, rank, wait_status));
  }
  const bool has_returned = message.end == RankEnd::kReturned;
  worst_ = std::max(worst_, has_returned ? WEXITSTATUS(wait_status) : 1);
  if (!has_returned && kill_at_ == 0.0) {
    kill_at_ = monotonic_seconds() + kUnwindSeconds;
  }
}

bool Ranks::wait_one(bool may_block) {
  int wait_status = 0;
  const pid_t pid = waitpid(-1, &wait_status, may_block ? 0 : WNOHANG);
  const auto found = std::find(pids_.begin(), pids_.end(), pid);
  if (pid <= 0 || found == pids_.end()) {
    return pid > 0;
  }
  take(static_cast<int>(found - pids_.begin()), wait_status);
  return true;
}

int Ranks::wait_all() {
  while (num_running_ > 0) {
    const bool has_failed = kill_at_ > 0.0;
    if (!wait_one(!has_failed) && has_failed) {
      if (monotonic_seconds() >= kill_at_) {
        kill_all();
      }
      usleep(5000);
    }
  }
  return worst_;
}

}  // namespace

int fork_ranks(const ForkOptions& options,
               const std::function<int(int rank)>& body) {
  check_one_thread();
  if (!options.log_dir.empty()) {
    std::error_code fault;
    std::filesystem::create_directories(options.log_dir, fault);
    if (fault) {
      throw Error("the folder of the logs, ",
                  options.log_dir,
                  ", cannot be made: ",
                  fault.message());
    }
  }
  std::cout.flush();
  std::fflush(nullptr);
  // SIGXFSZ: a write beyond the limit of a file's size is to fail instead.
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXFSZ}) {
    signal(number, SIG_IGN);
  }
  Ranks ranks(options);
  ranks.fork_all(body);
  const int worst = ranks.wait_all();
  const std::optional<int> failed = options.board->first_failed();
  if (failed && options.exit_fd < 0) {
    log_error(options.board->describe(*failed));
  }
  return worst;
}

bool stop_requested() {
  return is_stop_requested.load();
}

void install_stop_handlers() {
  struct sigaction action = {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    sigaction(signal, &action, nullptr);
  }
}

std::string describe_death(const Board& board, int rank, int wait_status) {
  const std::string text = board.describe(rank);
  const size_t name_end = text.find("): ");
  std::string out = name_end == std::string::npos
                        ? "rank " + std::to_string(rank)
                        : text.substr(0, name_end + 1);
  out += " " + describe_wait_status(wait_status);
  out += "; last operation: ";
  out += name_end == std::string::npos ? text : text.substr(name_end + 3);
  return out;
}

}  // namespace triax
