// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triax/comm/board.h"
#include "triax/comm/group.h"

namespace triax {

class Arena;

struct LocalOptions {
  /// An operation that saw no change for so long throws, naming who is
  /// missing.
  double deadline_seconds = 60.0;
  /// A board of at least world_size ranks; left out: one of its own.
  std::shared_ptr<Board> board = nullptr;
};

/// The ranks of one host and the memory they share: the default transport.
/// Made before the ranks are forked, or before their threads start; each rank
/// then joins once. Nothing of it has a name in the file system, so nothing
/// stays behind when ranks are killed.
///
/// After an Error of one of its operations a world is of no more use: every
/// rank's current and next operation throws the same text.
class LocalWorld {
 public:
  LocalWorld(int world_size, LocalOptions options);
  ~LocalWorld();

  int world_size() const { return world_size_; }
  const std::shared_ptr<Board>& board() const { return options_.board; }

  /// The world's group for `rank`, called in the process or thread of that
  /// rank, which thereby enters its pid on the board. When all groups of a
  /// rank are gone, and not through an exception, the rank has finished.
  std::unique_ptr<Group> join(int rank) const;

 private:
  const int world_size_;
  LocalOptions options_;
  std::shared_ptr<Arena> arena_;
  uint64_t block_;
};

/// Throws Error where the system has no room for it.
std::shared_ptr<LocalWorld> make_local_world(int world_size,
                                             LocalOptions options = {});

}  // namespace triax
