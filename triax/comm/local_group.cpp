// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local_group.h"

#include <utility>

namespace triax {

LocalGroupState::LocalGroupState(std::shared_ptr<LocalRank> the_context,
                                 const std::string& the_name,
                                 int the_rank,
                                 std::vector<int> the_world_ranks,
                                 uint64_t the_offset)
    : context(std::move(the_context)),
      name(the_name),
      rank(the_rank),
      world_ranks(std::move(the_world_ranks)),
      offset(the_offset),
      block(context->arena->block(offset, size())),
      first_counter(block.header().first_counter),
      name_id(context->board->name_id(name)),
      sends(world_ranks.size()),
      receives(world_ranks.size()) {
  for (int other = 0; other < size(); ++other) {
    if (other != rank) {
      other_bells.push_back(&context->board->bell(world_ranks[size_t(other)]));
    }
  }
}

LocalGroupState::~LocalGroupState() {
  if (block.header().num_users.fetch_sub(1) == 1) {
    context->arena->give_back(offset, size());
  }
}

uint64_t prepare_block(Arena& arena, Board& board, int size) {
  const uint64_t offset = arena.take(size);
  BlockHeader& header = arena.block(offset, size).header();
  header.num_users.store(size);
  if (header.first_counter == 0) {
    header.first_counter =
        1 + board.add_counters(CounterTable::count(size) + 1);
  }
  for (uint64_t i = 0; i < CounterTable::count(size); ++i) {
    board.counter(header.first_counter + i).store(0);
  }
  return offset;
}

}  // namespace triax
