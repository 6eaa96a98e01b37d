// SPDX-License-Identifier: Apache-2.0
#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "triax/base/error.h"
#include "triax/memory/io_engines.h"

namespace triax::detail {
namespace {

/// Transfers that the kernel has at a time; the next one waits.
constexpr unsigned kDepth = 64;

/// How long the kernel may have no room for a transfer although it has no other
/// one, and how often it is asked meanwhile.
constexpr int kMaxRefusals = 500;
constexpr auto kBetweenRefusals = std::chrono::milliseconds(1);

class RingIo;

class RingTransfer final : public PendingIo {
 public:
  RingTransfer(RingIo& ring, const IoTransfer& transfer)
      : left(transfer), ring_(ring) {}

  bool is_done() override;
  void wait() override;
  int error() const override { return error_number; }

  // The ring's, under its lock. What is finished may outlive the ring.
  IoTransfer left;
  int error_number = 0;
  std::atomic<bool> is_finished = false;

 private:
  RingIo& ring_;
};

/// Whoever waits takes completions from the ring, others' too: no thread of
/// its own, and no switch to one.
class RingIo final : public AsyncIo {
 public:
  RingIo(const io_uring& ring, RingSubmit* submit_entries)
      : ring_(ring), submit_entries_(submit_entries) {}

  ~RingIo() override {
    {
      const std::lock_guard lock(mutex_);
      while (num_pending_ > 0) {
        take_one();
      }
    }
    io_uring_queue_exit(&ring_);
  }

  std::unique_ptr<PendingIo> start(const IoTransfer& transfer) override {
    auto pending = std::make_unique<RingTransfer>(*this, transfer);
    const std::lock_guard lock(mutex_);
    if (transfer.nbytes == 0) {
      pending->is_finished = true;
      return pending;
    }
    while (num_pending_ >= kDepth) {
      take_one();
    }
    ++num_pending_;
    submit(*pending);
    return pending;
  }

  std::string_view name() const override { return "io_uring"; }

  void wait_for(RingTransfer& transfer) {
    const std::lock_guard lock(mutex_);
    while (!transfer.is_finished) {
      take_one();
    }
  }

  bool look_at(RingTransfer& transfer) {
    const std::lock_guard lock(mutex_);
    io_uring_cqe* completion = nullptr;
    while (!transfer.is_finished &&
           io_uring_peek_cqe(&ring_, &completion) == 0) {
      take(completion);
    }
    return transfer.is_finished;
  }

 private:
  void submit(RingTransfer& transfer) {
    to_submit_.push_back(&transfer);
    if (is_submitting_) {
      return;  // what takes a completion in there has more to submit
    }
    is_submitting_ = true;
    while (!to_submit_.empty()) {
      RingTransfer& next = *to_submit_.front();
      to_submit_.pop_front();
      submit_one(next);
    }
    is_submitting_ = false;
  }

  void submit_one(RingTransfer& transfer) {
    const IoTransfer& left = transfer.left;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // full of entries that the kernel refused
      finish(transfer, EAGAIN);
      return;
    }
    const auto nbytes = static_cast<unsigned>(next_bytes(left));
    const auto offset = static_cast<uint64_t>(left.offset);
    if (left.is_write) {
      io_uring_prep_write(entry, left.fd, left.memory, nbytes, offset);
    } else {
      io_uring_prep_read(entry, left.fd, left.memory, nbytes, offset);
    }
    io_uring_sqe_set_data(entry, &transfer);
    if (const int error_number = hand_over()) {
      // The kernel never saw it: what it belongs to may go.
      io_uring_prep_nop(entry);
      io_uring_sqe_set_data(entry, nullptr);
      finish(transfer, error_number);
    } else {
      ++num_in_kernel_;
    }
  }

  /// Gives the kernel all entries. An errno, 0 for success.
  int hand_over() {
    int num_refusals = 0;
    while (io_uring_sq_ready(&ring_) > 0) {
      const int taken = submit_entries_(&ring_);
      if (taken > 0 || taken == -EINTR) {
        continue;
      }
      if (taken != -EAGAIN && taken != -EBUSY) {
        return taken == 0 ? EIO : -taken;
      }
      // No room for another one: it comes back with one that ends.
      if (num_in_kernel_ > 0) {
        take_one();
      } else if (++num_refusals <= kMaxRefusals) {
        std::this_thread::sleep_for(kBetweenRefusals);
      } else {
        return -taken;
      }
    }
    return 0;
  }

  void take_one() {
    io_uring_cqe* completion = nullptr;
    int result = 0;
    do {
      result = io_uring_wait_cqe(&ring_, &completion);
    } while (result == -EINTR || result == -EAGAIN);
    TRIAX_CHECK(result == 0, "io_uring_wait_cqe: ", std::strerror(-result));
    take(completion);
  }

  void take(io_uring_cqe* completion) {
    auto* const transfer =
        static_cast<RingTransfer*>(io_uring_cqe_get_data(completion));
    const int result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (transfer == nullptr) {
      return;
    }
    --num_in_kernel_;
    if (result == -EINTR || result == -EAGAIN) {
      submit(*transfer);
    } else if (result <= 0) {
      finish(*transfer, result == 0 ? EIO : -result);
    } else {
      advance(transfer->left, result);
      if (transfer->left.nbytes > 0) {
        submit(*transfer);
      } else {
        finish(*transfer, 0);
      }
    }
  }

  void finish(RingTransfer& transfer, int error_number) {
    --num_pending_;
    transfer.error_number = error_number;
    transfer.is_finished = true;
  }

  std::mutex mutex_;
  io_uring ring_;
  RingSubmit* const submit_entries_;
  unsigned num_pending_ = 0;
  unsigned num_in_kernel_ = 0;
  std::deque<RingTransfer*> to_submit_;
  bool is_submitting_ = false;
};

bool RingTransfer::is_done() {
  return is_finished || ring_.look_at(*this);
}

void RingTransfer::wait() {
  if (!is_finished) {
    ring_.wait_for(*this);
  }
}

bool has_reads_and_writes(io_uring& ring) {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) {
    return false;
  }
  const bool has_both = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                        io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return has_both;
}

}  // namespace

std::unique_ptr<AsyncIo> make_ring_io(RingSubmit* submit_entries) {
  io_uring ring;
  if (io_uring_queue_init(kDepth, &ring, 0) != 0) {
    return nullptr;
  }
  if (!has_reads_and_writes(ring)) {
    io_uring_queue_exit(&ring);
    return nullptr;
  }
  return std::make_unique<RingIo>(
      ring, submit_entries == nullptr ? io_uring_submit : submit_entries);
}

}  // namespace triax::detail
