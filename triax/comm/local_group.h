// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triax/comm/emulation.h"
#include "triax/comm/local_memory.h"
#include "triax/comm/local_rank.h"

namespace triax {

/// One rank's side of a group of the local transport. Made and destroyed by
/// each of its ranks; the last gives the block back.
class LocalGroupState {
 public:
  LocalGroupState(std::shared_ptr<LocalRank> context,
                  const std::string& name,
                  int rank,
                  std::vector<int> world_ranks,
                  uint64_t offset);
  ~LocalGroupState();
  LocalGroupState(const LocalGroupState&) = delete;
  LocalGroupState& operator=(const LocalGroupState&) = delete;

  int size() const { return int(world_ranks.size()); }
  uint64_t collective_counter(int of) const {
    return first_counter + CounterTable::collectives(size(), of);
  }
  uint64_t send_counter(int from, int to) const {
    return first_counter + CounterTable::sends(size(), from, to);
  }
  uint64_t receive_counter(int by, int from) const {
    return first_counter + CounterTable::receives(size(), by, from);
  }

  const std::shared_ptr<LocalRank> context;
  const std::string name;
  const int rank;
  const std::vector<int> world_ranks;
  const uint64_t offset;
  const GroupBlock block;
  const uint64_t first_counter;
  const int32_t name_id;
  std::vector<Bell*> other_bells;
  LinkEmulation emulation;  // what `link` was set to, for groups split off
  LinkQueue link;

  // Used by whoever carries out collectives: one thread after the other.
  int64_t phase = 0;

  Lane collectives;
  std::vector<Lane> sends;     // by receiver
  std::vector<Lane> receives;  // by sender
};

/// Makes a block for `size` ranks ready to be used by that many.
uint64_t prepare_block(Arena& arena, Board& board, int size);

}  // namespace triax
