// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/launch_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iostream>

#include "triax/base/error.h"
#include "triax/base/log.h"

namespace triax {
namespace {

constexpr double kKillSeconds = 5.0;
constexpr size_t kTailBytes = 8192;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) {
    out.push_back(const_cast<char*>(text.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

// Async-signal-safe calls only, as all between fork and exec.
void settle_child(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const Command& command,
                         char* const* argv,
                         char* const* envp,
                         pid_t parent,
                         int fault_fd) {
  settle_child(parent);
  for (const int fd : command.inherited) {
    fcntl(fd, F_SETFD, 0);
  }
  execve(command.program.c_str(), argv, envp);
  const int fault = errno;
  const ssize_t written = write(fault_fd, &fault, sizeof fault);
  _exit(written == sizeof fault ? 127 : 126);
}

pid_t fork_or_throw() {
  const pid_t pid = fork();
  if (pid < 0) {
    throw Error("no process for the ranks: ",
                std::strerror(errno),
                "; see `ulimit -u`");
  }
  return pid;
}

int run_logged(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
  return 1;
}

const char* signal_hint(int signal) {
  switch (signal) {
    case SIGKILL:
      return "; if nobody sent it, the kernel ran out of memory (see dmesg)";
    case SIGBUS:
      return "; often a mapped file was cut short, or shared memory is full";
    case SIGILL:
      return "; often a library built for another CPU";
    case SIGPIPE:
      return "; whoever read its output is gone";
    default:
      return "";
  }
}

std::vector<pid_t> list_children() {
  std::vector<pid_t> out;
  DIR* const folder = opendir("/proc");
  if (folder == nullptr) {
    return out;
  }
  while (const dirent* const entry = readdir(folder)) {
    pid_t pid = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, fault] = std::from_chars(entry->d_name, end, pid);
    if (fault != std::errc() || stop != end) {
      continue;
    }
    const std::optional<ProcessState> state = read_process_state(pid);
    if (state && state->parent == getpid()) {
      out.push_back(pid);
    }
  }
  closedir(folder);
  return out;
}

std::string read_some(int fd, size_t max_bytes) {
  std::string out(max_bytes, '\0');
  size_t filled = 0;
  while (filled < max_bytes) {
    const ssize_t count = read(fd, out.data() + filled, max_bytes - filled);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;
    }
    filled += static_cast<size_t>(count);
  }
  out.resize(filled);
  return out;
}

}  // namespace

pid_t start_process(const Command& command) {
  std::vector<std::string> arguments{command.program};
  arguments.insert(
      arguments.end(), command.arguments.begin(), command.arguments.end());
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(command.environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error("no pipe to the ranks: ", std::strerror(errno));
  }
  const Descriptor fault_in(ends[0]);
  Descriptor fault_out(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork_or_throw();
  if (pid == 0) {
    become(command, argv.data(), envp.data(), parent, fault_out.get());
  }
  { const Descriptor closed = std::move(fault_out); }
  int fault = 0;
  const std::string answer = read_some(fault_in.get(), sizeof fault);
  if (answer.size() == sizeof fault) {
    std::memcpy(&fault, answer.data(), sizeof fault);
    waitpid(pid, nullptr, 0);
    throw Error(command.program,
                " cannot be started: ",
                std::strerror(fault),
                "; it belongs to triax and `make build` makes it");
  }
  return pid;
}

pid_t fork_process(const std::function<int()>& body) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork_or_throw();
  if (pid == 0) {
    settle_child(parent);
    const int code = run_logged(body);
    std::cout.flush();
    std::fflush(nullptr);
    _exit(code);
  }
  return pid;
}

void check_one_thread() {
#ifndef __SANITIZE_THREAD__  // it has a thread of its own, and handles forks
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  const auto num_threads = std::distance(begin(tasks), end(tasks));
  if (num_threads != 1) {
    throw Error("ranks cannot be forked from a process with ",
                num_threads,
                " threads: start them first in main(), before the first "
                "operation of LibTorch and before any thread");
  }
#endif
}

Descriptor open_process(pid_t pid) {
  return Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void signal_process(const Descriptor& process, int signal) {
  syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

bool has_ended(const Descriptor& process) {
  pollfd query{process.get(), POLLIN, 0};
  return poll(&query, 1, 0) == 1;
}

std::optional<ProcessState> read_process_state(pid_t pid) {
  const Descriptor file(
      open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return std::nullopt;
  }
  // The command's name, in parentheses, may itself hold spaces and ')'.
  const std::string text = read_some(file.get(), 4096);
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= text.size()) {
    return std::nullopt;
  }
  ProcessState out;
  out.state = text[name_end + 2];
  std::from_chars(
      text.data() + name_end + 4, text.data() + text.size(), out.parent);
  return out;
}

std::vector<pid_t> kill_children() {
  const double give_up = monotonic_seconds() + kKillSeconds;
  std::vector<pid_t> children = list_children();
  while (!children.empty() && monotonic_seconds() < give_up) {
    for (const pid_t child : children) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, WNOHANG);
    }
    const timespec pause{0, 2000000};
    nanosleep(&pause, nullptr);
    children = list_children();
  }
  return children;
}

std::string describe_wait_status(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  const char* const name = sigabbrev_np(signal);
  return fmt::format("was killed by signal {} (SIG{}{})",
                     signal,
                     name != nullptr ? name : "?",
                     signal_hint(signal));
}

std::vector<std::string> read_tail(const std::string& path, int max_lines) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::string> lines;
  if (!file.is_open()) {
    return lines;
  }
  const off_t end = lseek(file.get(), 0, SEEK_END);
  const auto window = static_cast<off_t>(kTailBytes);
  lseek(file.get(), end > window ? end - window : 0, SEEK_SET);
  const std::string text = read_some(file.get(), kTailBytes);
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, stop - at));
    at = stop + 1;
  }
  const size_t keep = std::min(lines.size(), static_cast<size_t>(max_lines));
  lines.erase(lines.begin(), lines.end() - static_cast<ptrdiff_t>(keep));
  return lines;
}

double monotonic_seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace triax
