// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "triax/memory/io_engines.h"

namespace triax::detail {
namespace {

/// Enough to have a read and a write on the disk at any time.
constexpr int kNumThreads = 4;

/// An errno, 0 for success.
int carry_out(IoTransfer transfer) {
  while (transfer.nbytes > 0) {
    const auto nbytes = static_cast<size_t>(next_bytes(transfer));
    const ssize_t moved =
        transfer.is_write
            ? pwrite(transfer.fd, transfer.memory, nbytes, transfer.offset)
            : pread(transfer.fd, transfer.memory, nbytes, transfer.offset);
    if (moved < 0 && errno != EINTR) {
      return errno;
    }
    if (moved == 0) {
      return EIO;
    }
    advance(transfer, std::max<ssize_t>(moved, 0));
  }
  return 0;
}

/// What the threads and those who wait look at.
struct Queue {
  std::mutex mutex;
  std::condition_variable is_there;
  std::condition_variable is_finished;
};

class ThreadTransfer final : public PendingIo {
 public:
  ThreadTransfer(const std::shared_ptr<Queue>& queue,
                 const IoTransfer& transfer)
      : transfer(transfer), queue_(queue) {}

  bool is_done() override {
    const std::lock_guard lock(queue_->mutex);
    return is_finished;
  }

  void wait() override {
    std::unique_lock lock(queue_->mutex);
    queue_->is_finished.wait(lock, [this] { return is_finished; });
  }

  int error() const override { return error_number; }

  const IoTransfer transfer;
  bool is_finished = false;
  int error_number = 0;

 private:
  const std::shared_ptr<Queue> queue_;
};

class ThreadIo final : public AsyncIo {
 public:
  ThreadIo() {
    for (int i = 0; i < kNumThreads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~ThreadIo() override {
    {
      const std::lock_guard lock(queue_->mutex);
      is_over_ = true;
    }
    queue_->is_there.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

  std::unique_ptr<PendingIo> start(const IoTransfer& transfer) override {
    auto pending = std::make_unique<ThreadTransfer>(queue_, transfer);
    {
      const std::lock_guard lock(queue_->mutex);
      waiting_.push_back(pending.get());
    }
    queue_->is_there.notify_one();
    return pending;
  }

  std::string_view name() const override { return "threads"; }

 private:
  void work() {
    std::unique_lock lock(queue_->mutex);
    while (true) {
      queue_->is_there.wait(lock,
                            [this] { return is_over_ || !waiting_.empty(); });
      if (waiting_.empty()) {
        return;
      }
      ThreadTransfer& next = *waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int error_number = carry_out(next.transfer);
      lock.lock();
      next.error_number = error_number;
      next.is_finished = true;
      queue_->is_finished.notify_all();
    }
  }

  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  std::deque<ThreadTransfer*> waiting_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<AsyncIo> make_thread_io() {
  return std::make_unique<ThreadIo>();
}

}  // namespace triax::detail
