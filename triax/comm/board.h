// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "triax/comm/operation.h"
#include "triax/comm/wait.h"

namespace triax {

struct EventRing;

/// What every rank of a world is doing, in shared memory without a name that
/// ranks write and anyone who holds the descriptor reads: the launcher, the
/// other ranks, and whoever looks after a rank died. Nothing here blocks.
class Board {
 public:
  static std::shared_ptr<Board> create(int world_size);
  /// Maps an inherited descriptor. Throws Error where it is not a board.
  static std::shared_ptr<Board> attach(int fd);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// Close-on-exec: clear FD_CLOEXEC in a child that is to attach it.
  int fd() const;
  int world_size() const;

  void set_pid(int rank, pid_t pid);
  /// 0 until it was set.
  pid_t pid(int rank) const;
  /// "dp 0, pp 1, tp 0".
  void set_coord(int rank, const std::string& text);
  void set_step(int rank, int64_t step);
  /// -1 until it was set.
  int64_t step(int rank) const;
  /// The rank takes part in nothing more.
  void set_finished(int rank);
  bool is_finished(int rank) const;

  /// Poison: the current or next operation of every rank throws an Error with
  /// the text of the rank that failed first. The first text of a rank stays.
  void fail(int rank, const std::string& text);
  std::optional<std::string> error(int rank) const;
  std::optional<int> first_failed() const;
  /// Throws the Error of the first failed rank, if one failed.
  void throw_if_failed() const;

  /// "rank 2 (dp 0, pp 1, tp 0; pid 123): step 17, in all_reduce #412 of group
  /// tp at row.cpp:211 for 5.1 s", "…, computing since all_reduce #411 …",
  /// "…, finished" or "…, failed: TEXT".
  std::string describe(int rank) const;

  /// A mismatch between ranks, a cycle of ranks that wait for each other, or a
  /// rank that waits for one that finished: a sentence with ranks and call
  /// sites. It is never a guess: only what can no longer resolve itself is
  /// told, however slow the ranks are. Ranks that wait fill in what they wait
  /// for after kPatience, so look again some time later.
  std::optional<std::string> diagnose() const;

  // What transports write.

  /// Ids of a group's name and of a call site, for OpRecord.
  int32_t name_id(const std::string& name);
  std::string name(int32_t id) const;
  uint32_t site_id(const CallSite& site);
  /// "row.cpp:211".
  std::string site(uint32_t id) const;
  /// "all_reduce(sum, 16 fp32) #412 of group tp at row.cpp:211".
  std::string describe(const OpRecord& record) const;

  /// The rank's own thread enters and leaves an operation (or its wait).
  void begin(int rank, const OpRecord& record, int64_t time_ns);
  void end(int rank, int64_t time_ns);
  /// This rank stands still until counter `counter`, which only the thread of
  /// rank `peer` that issues operations raises, is at least `target`.
  void set_waits_for(int rank, int peer, uint64_t counter, uint64_t target);

  /// `count` counters, zero at first; the index of the first.
  uint64_t add_counters(uint64_t count);
  std::atomic<uint64_t>& counter(uint64_t index) const;

  /// Where the threads of `rank` sleep; fail() rings them all.
  Bell& bell(int rank) const;
  EventRing& events(int rank) const;

 private:
  struct Layout;
  explicit Board(std::unique_ptr<Layout> layout);

  std::optional<std::string> find_mismatch() const;
  std::optional<std::string> find_dead_end(int rank) const;

  const std::unique_ptr<Layout> layout_;
  const uint64_t number_;  // of all this process ever had
};

/// A rank that waited longer than this tells the Board for whom, and looks
/// for a diagnosis every kDiagnosisInterval.
inline constexpr int64_t kPatienceNs = 300'000'000;
inline constexpr int64_t kDiagnosisIntervalNs = 200'000'000;

}  // namespace triax
