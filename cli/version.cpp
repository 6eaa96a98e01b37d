// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <fmt/format.h>

#include "triax/base/error.h"
#include "triax/comm/launch.h"

namespace triax {
namespace {

std::string ranks_line() {
  try {
    return fmt::format("{} (LibTorch {})", find_run_program(), TRIAX_LIBTORCH);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string version_text() {
  return fmt::format("triax {}\ncompiler: {} {}\nranks: {}",
                     TRIAX_VERSION,
#ifdef __clang__
                     "clang",
#else
                     "g++",
#endif
                     __VERSION__,
                     ranks_line());
}

}  // namespace triax
