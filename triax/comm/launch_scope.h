// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include "triax/comm/launch_process.h"

namespace triax {

/// SIGINT, SIGTERM and, where it is not ignored (nohup), SIGHUP arrive as
/// reads of a descriptor, by scope. For a process with one thread.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;

  /// Polls readable when there is one to take().
  int fd() const { return queue_.get(); }
  /// 0 when there is none.
  int take();

 private:
  sigset_t former_;
  Descriptor queue_;
};

/// Orphans of a child become children of this process, by scope; at its end
/// every child is killed and reaped.
class Subreaper {
 public:
  Subreaper();
  ~Subreaper();
  Subreaper(const Subreaper&) = delete;

 private:
  int former_ = 0;
};

}  // namespace triax
