// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_ranks.h"

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "triax/comm/local.h"
#include "triax/memory/saved_tensor_hooks.h"
#include "triax/memory/tracker.h"
#include "triax/memory/tracking_allocator.h"

namespace triax {
namespace {

/// Before main(): a test may use LibTorch before its first ranks.
const bool is_memory_tracked = [] {
  install_tracking_allocator();
  install_saved_tensor_hooks();
  return true;
}();

}  // namespace

void run_ranks(int world_size,
               const std::function<void(std::unique_ptr<Group> world)>& body) {
  run_ranks_on_board(
      world_size,
      [&](std::unique_ptr<Group> world, const std::shared_ptr<Board>&) {
        body(std::move(world));
      });
}

void run_ranks_on_board(
    int world_size,
    const std::function<void(std::unique_ptr<Group> world,
                             const std::shared_ptr<Board>& board)>& body) {
  at::set_num_threads(1);
  const std::shared_ptr<LocalWorld> world = make_local_world(world_size);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      // Of this thread too: matrix products begin with OpenMP's own number, and
      // a thread's first ones would round otherwise than its later ones.
      at::set_num_threads(1);
      const RankMemoryScope memory(make_memory_tracker());
      try {
        body(world->join(rank), world->board());
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) {
            first = std::current_exception();
          }
        }
        world->board()->fail(rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace triax
