// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local_rank.h"

#include <utility>

#include "triax/base/error.h"
#include "triax/base/units.h"

namespace triax {

bool LocalOp::finish_at(int64_t end_ns) {
  is_done_ = end_ns == 0 || now_ns() >= end_ns;
  wake_ns_.store(is_done_ ? kNever : end_ns, std::memory_order_relaxed);
  return is_done_;
}

LocalRank::LocalRank(std::shared_ptr<Arena> the_arena,
                     std::shared_ptr<Board> the_board,
                     int the_rank,
                     double deadline_seconds)
    : arena(std::move(the_arena)),
      board(std::move(the_board)),
      rank(the_rank),
      deadline_ns(int64_t(deadline_seconds * 1e9)),
      recorder(board, the_rank),
      progress(board, the_rank) {}

LocalRank::~LocalRank() {
  if (std::uncaught_exceptions() == 0) {
    board->set_finished(rank);
  }
}

void LocalRank::fail(const std::string& text) {
  board->fail(rank, text);
  throw Error(text);
}

void LocalRank::note_issuer() {
  static thread_local char here;
  const uintptr_t thread = reinterpret_cast<uintptr_t>(&here);
  if (issuer_.load(std::memory_order_relaxed) == thread) [[likely]] {
    return;
  }
  if (issuer_.exchange(thread) != 0) {
    has_many_issuers_.store(true);
  }
}

void LocalRank::look(const LocalOp& op, int64_t num_moves, Patience& patience) {
  const int64_t now = now_ns();
  if (num_moves != patience.num_moves || op.wake_ns() != LocalOp::kNever) {
    patience.num_moves = num_moves;
    patience.moved_ns = now;
  }
  // With several threads that issue, a thread that stands still says nothing
  // about what the rank will issue next.
  if (!has_many_issuers_.load()) {
    for (const Awaited& peer : op.awaited()) {
      if (board->counter(peer.counter).load() < peer.target) {
        board->set_waits_for(rank, peer.rank, peer.counter, peer.target);
        break;
      }
    }
  }
  if (const std::optional<std::string> diagnosis = board->diagnose()) {
    board->throw_if_failed();
    fail(*diagnosis);
  }
  if (now - patience.moved_ns >= deadline_ns) {
    give_up(op, now - patience.moved_ns);
  }
  patience.look_ns =
      std::min(now + kDiagnosisIntervalNs, patience.moved_ns + deadline_ns);
}

void LocalRank::give_up(const LocalOp& op, int64_t waited_ns) {
  std::string missing;
  for (const Awaited& peer : op.awaited()) {
    missing += (missing.empty() ? "" : "; ") + board->describe(peer.rank);
  }
  fail(detail::join("rank ",
                    rank,
                    " waited ",
                    format_duration(double(waited_ns) * 1e-9),
                    " in ",
                    board->describe(op.record()),
                    "; missing: ",
                    missing.empty() ? "an earlier operation" : missing,
                    "; if that rank is only slow, raise comm.deadline"));
}

}  // namespace triax
