// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "triax/comm/board.h"
#include "triax/comm/local_memory.h"
#include "triax/comm/local_op.h"
#include "triax/comm/progress.h"
#include "triax/comm/recorder.h"

namespace triax {

/// What the groups of one rank share. Goes with the last of them; unless an
/// exception is what destroys it, the rank then counts as finished.
class LocalRank {
 public:
  LocalRank(std::shared_ptr<Arena> arena,
            std::shared_ptr<Board> board,
            int rank,
            double deadline_seconds);
  ~LocalRank();
  LocalRank(const LocalRank&) = delete;
  LocalRank& operator=(const LocalRank&) = delete;

  const std::shared_ptr<Arena> arena;
  const std::shared_ptr<Board> board;
  const int rank;
  const int64_t deadline_ns;
  Recorder recorder;
  Progress progress;

  /// Poisons the world and throws.
  [[noreturn]] void fail(const std::string& text);
  /// The calling thread issues an operation of this rank.
  void note_issuer();
  /// Blocks until `advance(until_ns)` is kReady; it may lower the time to look
  /// again.
  /// Meanwhile tells the Board whom `op` waits for, looks for a diagnosis, and
  /// throws Error: of a failed rank, of a diagnosis, or after the deadline
  /// without a change of `num_moves`.
  template <class Advance>
  void stand_by(const LocalOp& op,
                const std::atomic<int64_t>& num_moves,
                int64_t start_ns,
                Advance&& advance);

 private:
  /// How long one wait has lasted.
  struct Patience {
    int64_t moved_ns = 0;  // when num_moves was last seen to change
    int64_t num_moves = 0;
    int64_t look_ns = 0;
  };
  void look(const LocalOp& op, int64_t num_moves, Patience& patience);
  [[noreturn]] void give_up(const LocalOp& op, int64_t waited_ns);

  std::atomic<uintptr_t> issuer_{0};
  std::atomic<bool> has_many_issuers_{false};
};

template <class Advance>
void LocalRank::stand_by(const LocalOp& op,
                         const std::atomic<int64_t>& num_moves,
                         int64_t start_ns,
                         Advance&& advance) {
  Patience patience;
  patience.moved_ns = start_ns;
  patience.num_moves = num_moves.load(std::memory_order_relaxed);
  patience.look_ns = start_ns + std::min(kPatienceNs, deadline_ns);
  int64_t until_ns = patience.look_ns;
  const auto look_at = [&] {
    board->throw_if_failed();
    return advance(until_ns);
  };
  while (!wait_until(board->bell(rank), until_ns, look_at)) {
    if (now_ns() >= patience.look_ns) {
      look(op, num_moves.load(std::memory_order_relaxed), patience);
    }
    until_ns = patience.look_ns;
  }
}

}  // namespace triax
