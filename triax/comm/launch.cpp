// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>

#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/base/units.h"
#include "triax/comm/board.h"
#include "triax/comm/fork_ranks.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/launch_process.h"
#include "triax/comm/launch_scope.h"

namespace triax {
namespace {

constexpr double kLookSeconds = 0.2;
constexpr double kAdoptSeconds = 0.02;
constexpr double kUnwindSeconds = 0.5;
// `timeout` and some schedulers send one request twice.
constexpr double kRepeatSeconds = 0.2;
// A parent that lives tells how a rank ended well within this.
constexpr double kAnswerSeconds = 1.0;
constexpr int kTailLines = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct WatchedRank {
  Descriptor process;
  bool is_adopted = false;
  bool has_exit = false;  // its RankExit came
  double gone_seconds = 0.0;
  double stopped_seconds = 0.0;
};

bool is_stopped(pid_t pid) {
  const std::optional<ProcessState> state = read_process_state(pid);
  return state && state->state == 'T';
}

/// Starts the parent of the ranks; throws Error where it cannot.
using StartParent = std::function<pid_t(const LaunchLink& link)>;

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const StartParent& start_parent);
  int run();

 private:
  void start();
  void sleep_until_event();
  void take_signals();
  void take_exits();
  void adopt_ranks();
  void watch_child();
  void end_with_child(int wait_status);
  /// A rank that never was.
  std::optional<int> first_missing() const;
  void look();
  void look_at_stops(double seconds);
  void look_at_stop(int rank, double seconds);
  void look_at_ends(double seconds);
  void look_at_board();
  void watch_time();

  void request_stop(int signal);
  void fail(const std::string& text, int rank = -1);
  void fail_first();
  void fail_dead(const RankExit& exit);
  std::string name(int rank) const;

  const LaunchOptions& options_;
  const StartParent& start_parent_;
  SignalQueue signals_;
  const Subreaper subreaper_;
  const std::shared_ptr<Board> board_;
  std::vector<WatchedRank> ranks_;
  Descriptor exits_;
  Descriptor child_;
  pid_t child_pid_ = 0;
  bool is_child_stopped_ = false;
  double child_stopped_seconds_ = 0.0;
  bool has_finding_ = false;
  bool has_failed_ = false;
  bool is_over_ = false;
  int exit_code_ = 0;
  double last_look_ = 0.0;
  double stop_requested_at_ = kNever;
  double kill_at_ = kNever;
};

Launcher::Launcher(const LaunchOptions& options,
                   const StartParent& start_parent)
    : options_(options),
      start_parent_(start_parent),
      board_(Board::create(options.world_size)),
      ranks_(static_cast<size_t>(options.world_size)) {}

int Launcher::run() {
  start();
  while (!is_over_) {
    sleep_until_event();
    take_signals();
    adopt_ranks();
    take_exits();
    watch_child();
    if (!is_over_ && monotonic_seconds() - last_look_ >= kLookSeconds) {
      look();
    }
    watch_time();
  }
  return exit_code_;
}

void Launcher::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error("no pipe to the ranks: ", std::strerror(errno));
  }
  exits_ = Descriptor(ends[0]);
  const Descriptor exits_out(ends[1]);
  fcntl(exits_.get(), F_SETFL, O_NONBLOCK);
  child_pid_ = start_parent_({.board_fd = board_->fd(),
                              .exit_fd = exits_out.get(),
                              .log_dir = options_.log_dir});
  child_ = open_process(child_pid_);
  last_look_ = monotonic_seconds();
}

void Launcher::sleep_until_event() {
  std::vector<pollfd> events{{signals_.fd(), POLLIN, 0},
                             {child_.get(), POLLIN, 0},
                             {exits_.get(), POLLIN, 0}};
  bool all_adopted = true;
  for (const WatchedRank& rank : ranks_) {
    all_adopted = all_adopted && rank.is_adopted;
    if (rank.process.is_open() && !rank.has_exit && rank.gone_seconds == 0.0) {
      events.push_back({rank.process.get(), POLLIN, 0});
    }
  }
  const double now = monotonic_seconds();
  double wake = std::min(last_look_ + kLookSeconds, kill_at_);
  if (!all_adopted) {
    wake = std::min(wake, now + kAdoptSeconds);
  }
  const double seconds = std::clamp(wake - now, 0.0, kLookSeconds);
  const int timeout_ms = static_cast<int>(seconds * 1e3) + 1;
  poll(events.data(), events.size(), timeout_ms);
}

void Launcher::take_signals() {
  while (const int signal = signals_.take()) {
    request_stop(signal);
  }
}

void Launcher::request_stop(int signal) {
  const std::string signal_name = std::string("SIG") + sigabbrev_np(signal);
  const double now = monotonic_seconds();
  if (now - stop_requested_at_ >= kRepeatSeconds) {
    log_warning(signal_name, " again: the ranks were killed");
    exit_code_ = 130;
    is_over_ = true;
  }
  if (stop_requested_at_ != kNever || has_failed_) {
    return;
  }
  log_info(signal_name,
           ": the ranks stop after this step; once more kills them");
  stop_requested_at_ = now;
  kill_at_ = now + options_.grace_seconds;
  for (const WatchedRank& rank : ranks_) {
    if (rank.process.is_open()) {
      signal_process(rank.process, SIGUSR1);
    }
  }
}

void Launcher::adopt_ranks() {
  for (int r = 0; r < options_.world_size; ++r) {
    WatchedRank& rank = ranks_[static_cast<size_t>(r)];
    const pid_t pid = rank.is_adopted ? 0 : board_->pid(r);
    if (pid == 0) {
      continue;
    }
    rank.is_adopted = true;
    rank.process = open_process(pid);
    // A number may be in use again by a process that is none of ours.
    const std::optional<ProcessState> state = read_process_state(pid);
    if (!state || (state->parent != child_pid_ && state->parent != getpid())) {
      rank.process = Descriptor();
    } else if (stop_requested_at_ != kNever) {
      signal_process(rank.process, SIGUSR1);
    }
  }
}

void Launcher::take_exits() {
  RankExit exit;
  while (read(exits_.get(), &exit, sizeof exit) == sizeof exit) {
    if (exit.rank < 0 || exit.rank >= options_.world_size) {
      continue;
    }
    ranks_[static_cast<size_t>(exit.rank)].has_exit = true;
    if (exit.end == RankEnd::kDied) {
      fail_dead(exit);
    } else if (exit.end == RankEnd::kReported) {
      fail_first();
    }
  }
}

void Launcher::watch_child() {
  int wait_status = 0;
  if (waitpid(child_pid_, &wait_status, WNOHANG) == child_pid_) {
    take_exits();
    end_with_child(wait_status);
    is_over_ = true;
  }
}

void Launcher::end_with_child(int wait_status) {
  if (board_->first_failed()) {
    fail_first();
  }
  if (has_failed_ || exit_code_ == 130) {
    return;
  }
  const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  const bool is_interrupted = stop_requested_at_ != kNever;
  if (code == 1 || code == 2) {
    exit_code_ = code;
  } else if (code == 0 && !is_interrupted && first_missing()) {
    fail(fmt::format("{} (pid {}) ended without starting rank {}",
                     options_.program,
                     child_pid_,
                     *first_missing()));
  } else if (code == 0 || code == 130) {
    exit_code_ = is_interrupted ? 130 : code;
  } else {
    fail(fmt::format("the parent of the ranks ({}, pid {}) {}",
                     options_.program,
                     child_pid_,
                     describe_wait_status(wait_status)));
  }
}

std::optional<int> Launcher::first_missing() const {
  for (int r = 0; r < options_.world_size; ++r) {
    if (board_->pid(r) == 0) {
      return r;
    }
  }
  return std::nullopt;
}

void Launcher::look() {
  const double now = monotonic_seconds();
  // While this process itself was stopped, no time passed for the ranks.
  const double seconds = std::min(now - last_look_, 2 * kLookSeconds);
  last_look_ = now;
  if (has_failed_) {
    return;
  }
  look_at_ends(seconds);
  look_at_board();
  look_at_stops(seconds);
}

void Launcher::look_at_ends(double seconds) {
  for (int r = 0; r < options_.world_size; ++r) {
    WatchedRank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.has_exit || !rank.process.is_open() || !has_ended(rank.process) ||
        board_->is_finished(r)) {
      continue;
    }
    rank.gone_seconds += seconds;
    if (rank.gone_seconds > kAnswerSeconds) {
      fail(fmt::format("{} ended; the parent of the ranks (pid {}) does not "
                       "tell how",
                       board_->describe(r),
                       child_pid_),
           r);
    }
  }
}

void Launcher::look_at_board() {
  if (board_->first_failed()) {
    // Its RankExit, if it died, was sent before: it says more.
    take_exits();
    fail_first();
    return;
  }
  const std::optional<std::string> finding = board_->diagnose();
  if (finding && has_finding_) {
    fail(*finding);
  }
  has_finding_ = finding.has_value();
}

void Launcher::look_at_stops(double seconds) {
  for (int r = 0; r < options_.world_size; ++r) {
    const WatchedRank& rank = ranks_[static_cast<size_t>(r)];
    if (!rank.has_exit && rank.process.is_open()) {
      look_at_stop(r, seconds);
    }
  }
  const bool is_child_stopped = is_stopped(child_pid_);
  if (is_child_stopped != is_child_stopped_) {
    is_child_stopped_ = is_child_stopped;
    log_warning(
        "the parent of the ranks (pid ",
        child_pid_,
        is_child_stopped ? ") is stopped: kill -CONT it" : ") continues");
  }
  child_stopped_seconds_ =
      is_child_stopped ? child_stopped_seconds_ + seconds : 0.0;
  if (options_.deadline_seconds > 0.0 &&
      child_stopped_seconds_ >= options_.deadline_seconds) {
    fail(
        fmt::format("the parent of the ranks (pid {}) was stopped (SIGSTOP) "
                    "for {}, the deadline",
                    child_pid_,
                    format_duration(options_.deadline_seconds)));
  }
}

void Launcher::look_at_stop(int r, double seconds) {
  WatchedRank& rank = ranks_[static_cast<size_t>(r)];
  const double before = rank.stopped_seconds;
  if (!is_stopped(board_->pid(r))) {
    rank.stopped_seconds = 0.0;
    if (before > 0.0) {
      log_info(name(r), " continues");
    }
    return;
  }
  rank.stopped_seconds += seconds;
  const bool has_deadline = options_.deadline_seconds > 0.0;
  const std::string deadline = format_duration(options_.deadline_seconds);
  if (before == 0.0) {
    log_warning(board_->describe(r),
                "; it is stopped (SIGSTOP, or a job control signal); ",
                has_deadline ? "the run ends in " + deadline + " unless it "
                             : "it waits until it ",
                "continues: kill -CONT ",
                board_->pid(r));
  } else if (has_deadline &&
             rank.stopped_seconds >= options_.deadline_seconds) {
    fail(board_->describe(r) + "; it was stopped (SIGSTOP) for " + deadline +
             ", the deadline",
         r);
  }
}

void Launcher::watch_time() {
  if (is_over_ || monotonic_seconds() < kill_at_) {
    return;
  }
  is_over_ = true;
  if (has_failed_) {
    return;
  }
  exit_code_ = 130;
  std::string text = "the ranks did not stop within " +
                     format_duration(options_.grace_seconds) +
                     " and were killed";
  for (int r = 0; r < options_.world_size; ++r) {
    if (!ranks_[static_cast<size_t>(r)].has_exit) {
      text += "\n  " + board_->describe(r);
    }
  }
  log_error(text);
}

void Launcher::fail(const std::string& text, int rank) {
  if (has_failed_) {
    return;
  }
  has_failed_ = true;
  exit_code_ = 1;
  kill_at_ = std::min(kill_at_, monotonic_seconds() + kUnwindSeconds);
  if (!board_->first_failed()) {
    // The ranks leave by this Error, and it stands in their logs.
    board_->fail(std::max(rank, 0), text);
  }
  std::string entry = text;
  const std::string path =
      rank < 0 ? "" : rank_log_path(options_.log_dir, rank);
  const std::vector<std::string> tail = read_tail(path, kTailLines);
  if (!tail.empty()) {
    entry += "\n  its log: " + path;
    for (const std::string& line : tail) {
      entry += "\n  | " + line;
    }
  }
  log_error(entry);
}

void Launcher::fail_first() {
  const std::optional<int> first = board_->first_failed();
  if (first) {
    fail(board_->describe(*first));
  }
}

void Launcher::fail_dead(const RankExit& exit) {
  const std::optional<int> first = board_->first_failed();
  if (first && *first != exit.rank) {
    fail_first();  // it pulled this one down
    return;
  }
  // The ranks' parent puts the same text there, after which describe_death()
  // no longer finds the operation: so that one is asked first.
  const std::string own = describe_death(*board_, exit.rank, exit.wait_status);
  fail(board_->error(exit.rank).value_or(own), exit.rank);
}

std::string Launcher::name(int rank) const {
  const std::string text = board_->describe(rank);
  const size_t end = text.find("): ");
  return end == std::string::npos ? fmt::format("rank {}", rank)
                                  : text.substr(0, end + 1);
}

int run_launcher(const LaunchOptions& options, const StartParent& start) {
  if (options.world_size < 1) {
    throw Error(
        "the number of ranks is ", options.world_size, ", not 1 or more");
  }
  return Launcher(options, start).run();
}

}  // namespace

int launch(const LaunchOptions& options) {
  return run_launcher(options, [&](const LaunchLink& link) {
    return start_process({.program = options.program,
                          .arguments = options.arguments,
                          .environment = environment_with(link),
                          .inherited = {link.board_fd, link.exit_fd}});
  });
}

int launch(const LaunchOptions& options,
           const std::function<int(const LaunchLink& link)>& ranks_parent) {
  return run_launcher(options, [&](const LaunchLink& link) {
    return fork_process([&] { return ranks_parent(link); });
  });
}

std::string find_run_program() {
  const char* const chosen = std::getenv("TRIAX_RUN");
  std::string path;
  if (chosen != nullptr && *chosen != '\0') {
    path = chosen;
  } else {
    namespace fs = std::filesystem;
    const fs::path self = fs::read_symlink("/proc/self/exe");
    path = self.parent_path().parent_path() / "libexec" / "triax-run";
  }
  if (access(path.c_str(), X_OK) != 0) {
    throw Error(path,
                " is not there or cannot be executed; it runs the ranks, and "
                "`make build` makes it");
  }
  return path;
}

}  // namespace triax
