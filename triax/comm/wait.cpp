// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace triax {

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void ring(Bell& bell) {
  if (bell.sleepers.load() == 0) {
    return;
  }
  bell.rung.fetch_add(1);
  syscall(SYS_futex, &bell.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

namespace detail {

void sleep_at(Bell& bell, uint32_t seen, int64_t until_ns) {
  const timespec until{until_ns / 1'000'000'000, until_ns % 1'000'000'000};
  syscall(SYS_futex,
          &bell.rung,
          FUTEX_WAIT_BITSET,
          seen,
          &until,
          nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

}  // namespace detail
}  // namespace triax
