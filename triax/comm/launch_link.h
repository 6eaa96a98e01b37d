// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace triax {

/// What the front hands to the program that it starts, through the
/// environment: two open descriptors and where the ranks' logs lie.
struct LaunchLink {
  /// The memory of the Board; -1 where no front started this process.
  int board_fd = -1;
  /// The front reads RankExits from its other end; -1 as above.
  int exit_fd = -1;
  /// Empty: none.
  std::string log_dir = {};
};

/// The link of this process, taken out of the environment so that no other
/// process inherits it; its descriptors are closed on exec. Call once, before
/// there is a second thread. Throws Error when the environment is malformed.
LaunchLink take_launch_link();

/// The environment of this process, with `link` in it.
std::vector<std::string> environment_with(const LaunchLink& link);

/// LOG_DIR/rank0003.log; empty when `log_dir` is.
std::string rank_log_path(const std::string& log_dir, int rank);

/// How a rank's process ended.
enum class RankEnd : uint8_t {
  kReturned,  // its body returned; the exit code is what the body gave
  kReported,  // its body threw: the text stands on the board
  kDied,      // a signal, or an exit from inside the body
};

/// One message from the parent of the ranks to the front, in one write(2).
struct RankExit {
  int32_t rank = -1;
  int32_t wait_status = 0;
  RankEnd end = RankEnd::kDied;
};

}  // namespace triax
