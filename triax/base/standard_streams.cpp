// SPDX-License-Identifier: Apache-2.0
#include "triax/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "triax/base/log.h"

namespace triax {

void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0) {
      // The lowest free number, which is this one. A closed stdout is opened
      // to be read, so that a result written to it is an error.
      const int opened =
          open("/dev/null", descriptor == 2 ? O_WRONLY : O_RDONLY);
      static_cast<void>(opened);
    }
  }
}

void let_large_writes_fail() {
  signal(SIGXFSZ, SIG_IGN);
}

int finish_standard_output(int exit_code) {
  std::cout.flush();
  const bool has_failed = !std::cout || fflush(stdout) != 0 || ferror(stdout);
  if (!has_failed) {
    return exit_code;
  }
  log_error("stdout could not be written: ", std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace triax
