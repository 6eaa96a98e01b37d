// SPDX-License-Identifier: Apache-2.0
// Plays both executables for launch_test: the front
//     launch_actor front TAG MODE RANKS LOG_DIR DEADLINE GRACE
// which launches itself as the program that forks the ranks
//     launch_actor ranks TAG MODE
// and, with the front's arguments, the program that starts its own ranks
//     launch_actor start …
// TAG only makes the processes of one test findable.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/comm/fork_ranks.h"
#include "triax/comm/launch.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/start_ranks.h"
#include "triax/comm/wait.h"

namespace triax {
namespace {

struct Actor {
  std::string mode;
  std::shared_ptr<Board> board;
  int rank = 0;

  int play();
  void misbehave();
  int wait_for_peers();
};

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// As in a collective: until a peer's Error arrives, or a stop.
int Actor::wait_for_peers() {
  OpRecord record;
  record.op = OpKind::kAllReduce;
  record.number = 412;
  record.numel = rank == 2 && mode == "mismatch" ? 8 : 16;
  record.name = board->name_id("tp");
  record.site = board->site_id(CallSite::current());
  board->begin(rank, record, now_ns());
  log_info("waits for its peers");
  while (!stop_requested() || mode == "ignore_stop") {
    board->throw_if_failed();
    sleep_ms(2);
  }
  std::cout << "rank " << rank << " stopped cleanly\n";
  return 0;
}

void Actor::misbehave() {
  if (mode == "throw") {
    throw Error("the file x.bin is not there; name another");
  } else if (mode == "throw_other") {
    throw 7;
  } else if (mode == "kill_self") {
    log_info("about to vanish");
    kill(getpid(), SIGKILL);
  } else if (mode == "segfault") {
    signal(SIGSEGV, SIG_DFL);
    kill(getpid(), SIGSEGV);
  } else if (mode == "exit_3") {
    std::exit(3);
  } else if (mode == "exit_0") {
    std::_Exit(0);
  } else if (mode == "stop_self") {
    kill(getpid(), SIGSTOP);
  } else if (mode == "kill_parent") {
    kill(getppid(), SIGKILL);
  } else if (mode == "stop_parent") {
    kill(getppid(), SIGSTOP);
    sleep_ms(50);
    kill(getpid(), SIGKILL);
  } else if (mode == "stop_parent_alone") {
    kill(getppid(), SIGSTOP);
  }
}

int Actor::play() {
  board->set_coord(rank, "dp 0, pp 1, tp " + std::to_string(rank));
  board->set_step(rank, 17);
  if (mode == "ok") {
    std::cout << "hello from rank " << rank << std::endl;
    log_info("a line");
    return 0;
  }
  if (mode == "return_2") {
    return 2;
  }
  if (mode == "orphan" && rank == 0) {
    if (fork() == 0) {
      sleep_ms(60000);
    }
    return 0;
  }
  if (mode == "throw_all") {
    throw Error("every rank sees this");
  }
  if (rank == 2) {
    sleep_ms(50);
    misbehave();
  }
  if (rank == 2 && mode == "finish_early") {
    return 0;
  }
  return wait_for_peers();
}

int play_ranks(const std::string& mode) {
  if (mode == "no_ranks") {
    return 9;
  }
  const LaunchLink link = take_launch_link();
  const std::shared_ptr<Board> board = Board::attach(link.board_fd);
  if (mode == "late") {
    sleep_ms(500);
  }
  return fork_ranks(
      {.board = board, .log_dir = link.log_dir, .exit_fd = link.exit_fd},
      [&](int rank) {
        return Actor{mode, board, rank}.play();
      });
}

// Without a front.
int play_alone(const std::string& mode) {
  const std::shared_ptr<Board> board = Board::create(3);
  return fork_ranks({.board = board}, [&](int rank) {
    return Actor{mode, board, rank}.play();
  });
}

int play_front(char** argv) {
  return launch({.program = "/proc/self/exe",
                 .arguments = {"ranks", argv[2], argv[3]},
                 .world_size = std::atoi(argv[4]),
                 .deadline_seconds = std::atof(argv[6]),
                 .log_dir = argv[5],
                 .grace_seconds = std::atof(argv[7])});
}

int play_start(char** argv) {
  const std::string mode = argv[3];
  std::thread other;
  if (mode == "threads") {
    other = std::thread([] { sleep_ms(60000); });
    other.detach();
  }
  const int code =
      start_ranks({.world_size = std::atoi(argv[4]),
                   .deadline_seconds = std::atof(argv[6]),
                   .grace_seconds = std::atof(argv[7]),
                   .log_dir = argv[5]},
                  [&](StartedRank rank) {
                    rank.world->barrier();
                    return Actor{mode, rank.board, rank.world->rank()}.play();
                  });
  std::cout << "main goes on\n";
  return code;
}

}  // namespace
}  // namespace triax

int main(int argc, char** argv) {
  const std::string role = argc > 3 ? argv[1] : "";
  try {
    if (role == "front" && argc == 8) {
      return triax::play_front(argv);
    }
    if (role == "start" && argc == 8) {
      return triax::play_start(argv);
    }
    if (role == "ranks") {
      return triax::play_ranks(argv[3]);
    }
    if (role == "alone") {
      return triax::play_alone(argv[3]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: see the source\n");
  return 2;
}
