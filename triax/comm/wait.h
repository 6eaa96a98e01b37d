// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace triax {

/// Nanoseconds of CLOCK_MONOTONIC: the same clock in every process of a host.
int64_t now_ns();

/// Where the threads of one rank sleep, in memory shared by processes.
/// Whoever changes a thing that a rank may wait for rings its bell afterwards.
/// What is waited for must be stored and loaded with memory_order_seq_cst, so
/// that either the sleeper sees the change or the ringer sees the sleeper.
struct alignas(64) Bell {
  std::atomic<uint32_t> rung{0};
  std::atomic<uint32_t> sleepers{0};
};

/// Wakes every thread that sleeps at `bell`; one load where none does.
void ring(Bell& bell);

namespace detail {

/// Sleeps until the bell is rung past `seen`, or `until_ns`.
void sleep_at(Bell& bell, uint32_t seen, int64_t until_ns);

class Sleeper {
 public:
  explicit Sleeper(Bell& bell) : bell_(bell) { bell_.sleepers.fetch_add(1); }
  Sleeper(const Sleeper&) = delete;
  ~Sleeper() { bell_.sleepers.fetch_sub(1); }

 private:
  Bell& bell_;
};

inline void pause_core() {
  __builtin_ia32_pause();
}

}  // namespace detail

inline constexpr int kSpins = 50;
inline constexpr int kYields = 1000;

/// What a look at the thing that is waited for found.
enum class Look {
  kIdle,   // nothing can be done until somebody rings, or until `until_ns`
  kMoved,  // something was done, and more may be possible at once
  kReady,
};

/// Waits until `look()` finds it ready (true), which may change `until_ns`, or
/// until then (false, after a last look): a few spins, then yields, then sleep.
/// Never sleeps after a move: the ring for what comes next may be over.
/// Measured on 2 cores, 2, 4 and 8 ranks: long spins cost 100 times more as
/// soon as ranks share a core.
///
/// `num_yields` 0 is for a thread beside one that computes: who yields to that
/// waits for a time slice, who sleeps and is rung for runs at once.
template <class LookAt>
bool wait_until(Bell& bell,
                const int64_t& until_ns,
                LookAt&& look,
                int num_yields = kYields) {
  int num_moves = 0;
  while (true) {
    for (int i = 0; i < kSpins + num_yields; ++i) {
      const Look found = look();
      if (found == Look::kReady) {
        return true;
      }
      if (found == Look::kMoved) {
        // Others' moves must not put off the caller's deadline.
        if (++num_moves % 64 == 0 && now_ns() >= until_ns) {
          return false;
        }
        i = 0;
      } else if (i < kSpins) {
        detail::pause_core();
      } else {
        sched_yield();
      }
    }
    detail::Sleeper sleeper(bell);
    Look found = Look::kIdle;
    while (found == Look::kIdle) {
      const uint32_t seen = bell.rung.load();
      found = look();
      if (found == Look::kReady) {
        return true;
      }
      if (found == Look::kIdle) {
        if (now_ns() >= until_ns) {
          return false;
        }
        detail::sleep_at(bell, seen, until_ns);
      }
    }
  }
}

}  // namespace triax
