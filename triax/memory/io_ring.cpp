// SPDX-License-Identifier: Apache-2.0
#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "triax/base/error.h"
#include "triax/memory/io_engines.h"

namespace triax::detail {
namespace {

/// Transfers that the kernel has at a time; the next one waits.
constexpr unsigned kDepth = 64;

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
  explicit RingIo(const io_uring& ring) : ring_(ring) {}

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
    const IoTransfer& left = transfer.left;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    TRIAX_CHECK(entry != nullptr, "the ring is full");
    const auto nbytes = static_cast<unsigned>(next_bytes(left));
    const auto offset = static_cast<uint64_t>(left.offset);
    if (left.is_write) {
      io_uring_prep_write(entry, left.fd, left.memory, nbytes, offset);
    } else {
      io_uring_prep_read(entry, left.fd, left.memory, nbytes, offset);
    }
    io_uring_sqe_set_data(entry, &transfer);
    int taken = 0;
    while ((taken = io_uring_submit(&ring_)) < 1) {
      if (taken == -EINTR || taken == -EAGAIN || taken == -EBUSY) {
        continue;
      }
      // The kernel never saw it: what it belongs to may go.
      io_uring_prep_nop(entry);
      io_uring_sqe_set_data(entry, nullptr);
      finish(transfer, taken == 0 ? EIO : -taken);
      return;
    }
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
  unsigned num_pending_ = 0;
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

std::unique_ptr<AsyncIo> make_ring_io() {
  io_uring ring;
  if (io_uring_queue_init(kDepth, &ring, 0) != 0) {
    return nullptr;
  }
  if (!has_reads_and_writes(ring)) {
    io_uring_queue_exit(&ring);
    return nullptr;
  }
  return std::make_unique<RingIo>(ring);
}

}  // namespace triax::detail
