// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "triax/comm/board.h"
#include "triax/comm/local_op.h"
#include "triax/comm/recorder.h"

namespace triax {

/// A started operation, until it is done.
struct StartedOp {
  std::unique_ptr<LocalOp> op;
  std::optional<Recorder::Span> span;
  std::exception_ptr error;  // read it once is_done
  /// Set last: nobody but the owner touches the object from then on.
  std::atomic<bool> is_done{false};
};

/// Operations that are carried out one after the other.
struct Lane {
  std::deque<StartedOp*> queue;        // only under the lock of Progress
  std::atomic<int64_t> num_queued{0};  // 0: a blocking call may go ahead
  std::atomic<int64_t> num_moves{0};
};

/// Carries out the started operations of one rank beside its computing. The
/// thread begins with the first of them, so after the fork.
class Progress {
 public:
  Progress(std::shared_ptr<Board> board, int rank);
  ~Progress();

  /// The owner keeps `op` and the lane's group until op->is_done.
  void submit(Lane& lane, StartedOp& op, bool needs_thread);

  /// While it lives the calling thread drives instead of the progress thread.
  class Driver {
   public:
    explicit Driver(Progress& progress);
    Driver(const Driver&) = delete;
    ~Driver();
    /// A step of every lane; lowers `wake_ns` to when one must be seen again.
    bool drive(int64_t& wake_ns);

   private:
    Progress& progress_;
  };

 private:
  bool drive(int64_t& wake_ns);
  bool advance_head(Lane& lane);
  void run();

  const std::shared_ptr<Board> board_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane*> lanes_;  // those with a queue
  std::atomic<int> num_drivers_{0};
  std::atomic<bool> must_stop_{false};
  std::thread thread_;
};

}  // namespace triax
