// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "triax/base/error.h"
#include "triax/comm/local.h"

namespace triax {

enum class RankKind { kThreads, kProcesses };

/// Throws unless `condition`: what a rank uses, in a process too, where
/// GoogleTest cannot see it.
inline void require(bool condition, const std::string& what) {
  if (!condition) {
    throw Error("not true: ", what);
  }
}

using RankMain = std::function<void(Group&)>;

/// How each rank ended: "" or the text of what it threw, or of its signal.
using Outcome = std::vector<std::string>;

inline Outcome run_threads(const LocalWorld& world, const RankMain& rank_main) {
  Outcome outcome(size_t(world.world_size()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        rank_main(*world.join(rank));
      } catch (const std::exception& error) {
        outcome[size_t(rank)] = error.what();
        world.board()->fail(rank, error.what());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return outcome;
}

inline Outcome run_processes(const LocalWorld& world,
                             const RankMain& rank_main) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < world.world_size(); ++rank) {
    pids.push_back(fork());
    if (pids.back() == 0) {
      try {
        rank_main(*world.join(rank));
        _exit(0);
      } catch (const std::exception& error) {
        world.board()->fail(rank, error.what());
        _exit(1);
      }
    }
  }
  Outcome outcome(pids.size());
  for (size_t waited = 0; waited < pids.size(); ++waited) {
    int status = 0;
    const pid_t pid = wait(&status);
    for (size_t rank = 0; rank < pids.size(); ++rank) {
      if (pids[rank] != pid || status == 0) {
        continue;
      }
      outcome[rank] = WIFSIGNALED(status)
                          ? "signal " + std::to_string(WTERMSIG(status))
                          : world.board()->error(int(rank)).value_or("?");
      // As a launcher would.
      world.board()->fail(int(rank), outcome[rank]);
    }
  }
  return outcome;
}

inline Outcome run_ranks(RankKind kind,
                         const LocalWorld& world,
                         const RankMain& rank_main) {
  return kind == RankKind::kThreads ? run_threads(world, rank_main)
                                    : run_processes(world, rank_main);
}

inline Outcome run_ranks(RankKind kind, int size, const RankMain& rank_main) {
  return run_ranks(kind, *make_local_world(size), rank_main);
}

/// ThreadSanitizer does not follow a fork of a process with threads.
inline std::vector<RankKind> rank_kinds() {
#if defined(__SANITIZE_THREAD__)
  return {RankKind::kThreads};
#else
  return {RankKind::kThreads, RankKind::kProcesses};
#endif
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace triax
