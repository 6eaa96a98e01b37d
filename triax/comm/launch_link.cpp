// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/launch_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "triax/base/error.h"

namespace triax {
namespace {

constexpr const char* kBoardVariable = "TRIAX_BOARD_FD";
constexpr const char* kExitVariable = "TRIAX_EXIT_FD";
constexpr const char* kLogVariable = "TRIAX_LOG_DIR";

int take_descriptor(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr) {
    return -1;
  }
  const std::string_view text = value;
  int fd = -1;
  const auto [stop, fault] =
      std::from_chars(text.data(), text.data() + text.size(), fd);
  if (fault != std::errc() || stop != text.data() + text.size() ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    throw Error(variable,
                "=",
                text,
                " is not an open descriptor; start ranks through triax, which "
                "sets it");
  }
  unsetenv(variable);
  return fd;
}

}  // namespace

LaunchLink take_launch_link() {
  LaunchLink link;
  link.board_fd = take_descriptor(kBoardVariable);
  link.exit_fd = take_descriptor(kExitVariable);
  if (const char* const folder = std::getenv(kLogVariable)) {
    link.log_dir = folder;
    unsetenv(kLogVariable);
  }
  return link;
}

std::vector<std::string> environment_with(const LaunchLink& link) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name != kBoardVariable && name != kExitVariable &&
        name != kLogVariable) {
      out.emplace_back(text);
    }
  }
  out.push_back(fmt::format("{}={}", kBoardVariable, link.board_fd));
  out.push_back(fmt::format("{}={}", kExitVariable, link.exit_fd));
  out.push_back(fmt::format("{}={}", kLogVariable, link.log_dir));
  return out;
}

std::string rank_log_path(const std::string& log_dir, int rank) {
  return log_dir.empty() ? "" : fmt::format("{}/rank{:04}.log", log_dir, rank);
}

}  // namespace triax
