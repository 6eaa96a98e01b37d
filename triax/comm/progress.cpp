// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/progress.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace triax {

Progress::Progress(std::shared_ptr<Board> board, int rank)
    : board_(std::move(board)), rank_(rank) {}

Progress::~Progress() {
  {
    std::lock_guard lock(mutex_);
    must_stop_.store(true);
  }
  changed_.notify_all();
  ring(board_->bell(rank_));
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Progress::submit(Lane& lane, StartedOp& op, bool needs_thread) {
  lane.num_queued.fetch_add(1);
  {
    std::lock_guard lock(mutex_);
    lane.queue.push_back(&op);
    if (lane.queue.size() == 1) {
      lanes_.push_back(&lane);
    }
    if (needs_thread && !thread_.joinable()) {
      // Signals are for the rank's own thread.
      sigset_t all;
      sigset_t before;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
      thread_ = std::thread([this] { run(); });
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
  }
  changed_.notify_all();
  ring(board_->bell(rank_));
}

bool Progress::advance_head(Lane& lane) {
  StartedOp& head = *lane.queue.front();
  bool has_moved = false;
  bool is_over = false;
  try {
    board_->throw_if_failed();
    has_moved = head.op->advance();
    is_over = head.op->is_done();
  } catch (...) {
    head.error = std::current_exception();
    is_over = true;
  }
  lane.num_moves.fetch_add(has_moved ? 1 : 0, std::memory_order_relaxed);
  if (is_over) {
    head.span.reset();
    lane.queue.pop_front();
    if (lane.queue.empty()) {
      std::erase(lanes_, &lane);
    }
    lane.num_queued.fetch_sub(1);
    head.is_done.store(true);
    ring(board_->bell(rank_));
  }
  return has_moved || is_over;
}

bool Progress::drive(int64_t& wake_ns) {
  std::lock_guard lock(mutex_);
  bool has_moved = false;
  for (size_t i = 0; i < lanes_.size();) {
    Lane* lane = lanes_[i];
    has_moved |= advance_head(*lane);
    if (i < lanes_.size() && lanes_[i] == lane) {
      wake_ns = std::min(wake_ns, lane->queue.front()->op->wake_ns());
      ++i;
    }
  }
  return has_moved;
}

void Progress::run() {
  while (!must_stop_.load()) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return must_stop_.load() ||
               (!lanes_.empty() && num_drivers_.load() == 0);
      });
    }
    int64_t wake_ns = now_ns() + kDiagnosisIntervalNs;
    wait_until(
        board_->bell(rank_),
        wake_ns,
        [&] {
          const bool is_over =
              must_stop_.load() || num_drivers_.load() > 0 || drive(wake_ns);
          return is_over ? Look::kReady : Look::kIdle;
        },
        /*num_yields=*/0);
  }
}

Progress::Driver::Driver(Progress& progress) : progress_(progress) {
  progress_.num_drivers_.fetch_add(1);
}

Progress::Driver::~Driver() {
  {
    std::lock_guard lock(progress_.mutex_);
    progress_.num_drivers_.fetch_sub(1);
  }
  progress_.changed_.notify_all();
}

bool Progress::Driver::drive(int64_t& wake_ns) {
  return progress_.drive(wake_ns);
}

}  // namespace triax
