// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/launch_scope.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "triax/base/log.h"

namespace triax {

SignalQueue::SignalQueue() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup;
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  sigprocmask(SIG_BLOCK, &set, &former_);
  queue_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalQueue::~SignalQueue() {
  sigprocmask(SIG_SETMASK, &former_, nullptr);
}

int SignalQueue::take() {
  signalfd_siginfo info;
  const ssize_t count = read(fd(), &info, sizeof info);
  return count == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

Subreaper::Subreaper() {
  prctl(PR_GET_CHILD_SUBREAPER, &former_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Subreaper::~Subreaper() {
  for (const pid_t left : kill_children()) {
    log_error("process ", left, " cannot be killed: it hangs in the kernel");
  }
  prctl(PR_SET_CHILD_SUBREAPER, former_);
}

}  // namespace triax
