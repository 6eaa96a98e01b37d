// SPDX-License-Identifier: Apache-2.0
// What the ring does when the kernel has no room for another transfer, which
// no test can bring about: another function stands for io_uring_submit().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "triax/memory/io_engines.h"

namespace triax {
namespace {

constexpr int64_t kBytes = 512;
constexpr int kCount = 20;

/// Entries that the kernel takes before some have been seen to end.
unsigned room = 0;
unsigned num_submitted = 0;
int num_refusals = 0;
int reason = 0;

/// Like a kernel with little memory: it counts what it has and what was taken
/// from it, and refuses all beyond its room.
int submit_if_there_is_room(io_uring* ring) {
  const unsigned num_seen = *ring->cq.khead;
  if (num_submitted - num_seen >= room) {
    ++num_refusals;
    return -reason;
  }
  const int taken = io_uring_submit(ring);
  num_submitted += taken > 0 ? static_cast<unsigned>(taken) : 0;
  return taken;
}

class IoRing : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    reason = GetParam();
    num_submitted = 0;
    num_refusals = 0;
    file_ = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(file_, 0);
    io_ = detail::make_ring_io(submit_if_there_is_room);
    if (!io_) {
      GTEST_SKIP() << "this kernel has no io_uring for us";
    }
  }
  void TearDown() override { ::close(file_); }

  std::unique_ptr<PendingIo> start(int number, bool is_write) {
    return io_->start({.fd = file_,
                       .is_write = is_write,
                       .offset = number * kBytes,
                       .memory = memory_[number].data(),
                       .nbytes = kBytes});
  }

  int file_ = -1;
  std::vector<std::vector<std::byte>> memory_{static_cast<size_t>(kCount),
                                              std::vector<std::byte>(kBytes)};
  std::unique_ptr<AsyncIo> io_;
};

TEST_P(IoRing, TakesWhatHasEndedWhereThereIsNoRoom) {
  room = 3;
  for (const bool is_write : {true, false}) {
    for (int i = 0; i < kCount; ++i) {
      memory_[i].assign(kBytes, is_write ? std::byte(i) : std::byte(255));
    }
    std::vector<std::unique_ptr<PendingIo>> all;
    for (int i = 0; i < kCount; ++i) {
      all.push_back(start(i, is_write));
    }
    for (int i = 0; i < kCount; ++i) {
      all[i]->wait();
      EXPECT_EQ(all[i]->error(), 0);
      EXPECT_EQ(memory_[i], std::vector<std::byte>(kBytes, std::byte(i)));
    }
  }
  EXPECT_GE(num_refusals, 2 * (kCount - 3));
}

// With nothing that could end it is an error, and the ring goes on.
TEST_P(IoRing, GivesUpWhereNothingCanEnd) {
  room = 0;
  const auto refused = start(0, true);
  refused->wait();
  EXPECT_EQ(refused->error(), reason);
  EXPECT_GT(num_refusals, 1);
  room = 8;
  const auto written = start(1, true);
  written->wait();
  EXPECT_EQ(written->error(), 0);
}

INSTANTIATE_TEST_SUITE_P(Reasons, IoRing, testing::Values(EAGAIN, EBUSY));

}  // namespace
}  // namespace triax
