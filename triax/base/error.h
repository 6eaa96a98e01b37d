// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace triax {

namespace detail {

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  static_cast<void>((out << ... << parts));
  return out.str();
}

}  // namespace detail

/// What the world outside did wrong: a file, a config, a peer, a deadline.
/// The message is one sentence that names the thing, the rule and a way out.
/// Thrown, never turned into an exit by the library.
class Error : public std::runtime_error {
 public:
  /// The parts are written one after the other: `Error("tp=", 3, " …")`.
  template <class... Parts>
  explicit Error(const Parts&... parts)
      : std::runtime_error(detail::join(parts...)) {}
};

namespace detail {

/// Throws std::logic_error that names the file, the line and the condition.
[[noreturn]] void fail_check(const char* file,
                             int line,
                             const char* condition,
                             const std::string& message);

}  // namespace detail
}  // namespace triax

/// For our own mistakes only: user input must never reach it.
#define TRIAX_CHECK(condition, ...)                                            \
  do {                                                                         \
    if (!(condition)) [[unlikely]] {                                           \
      ::triax::detail::fail_check(                                             \
          __FILE__, __LINE__, #condition, ::triax::detail::join(__VA_ARGS__)); \
    }                                                                          \
  } while (false)
