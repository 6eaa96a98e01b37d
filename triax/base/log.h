// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "triax/base/error.h"

namespace triax {

/// Lines for people: progress, warnings, errors. On a terminal
///     rank 3: warning: the loss is not finite at step 17
/// and in a file, with the time (UTC) in front
///     2026-03-01T09:30:12.345Z rank 3: warning: the loss …
/// A line is one write(2), so lines of ranks and threads never mix. Any thread
/// may call. What a program prints as its result goes to stdout, not here.
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

struct LogOptions {
  /// Lines below it are dropped.
  LogLevel level = LogLevel::kInfo;
  /// Stands in front of each line; none when negative.
  int rank = -1;
  /// Lines are appended here; created with mode 0600. None when empty.
  std::string file = {};
  bool to_stderr = true;
};

/// Replaces the settings of this process; throws Error when the file cannot be
/// opened, and keeps the former settings. Without a call: kInfo to stderr.
void configure_log(const LogOptions& options);

/// "debug", "info", "warning", "error"; anything else is an Error.
LogLevel parse_log_level(std::string_view text);

/// True when a line of this level would be written: guard costly texts.
bool is_logged(LogLevel level);

/// Writes one entry. Control characters other than line feeds and tabs are
/// written as \xNN, so that a file's name cannot drive the terminal.
void write_log(LogLevel level, std::string_view text);

/// As write_log(), to the file alone; nothing where none is set.
void write_log_file(LogLevel level, std::string_view text);

/// The parts are written one after the other, as in Error.
template <class... Parts>
void log_debug(const Parts&... parts) {
  if (is_logged(LogLevel::kDebug)) {
    write_log(LogLevel::kDebug, detail::join(parts...));
  }
}

template <class... Parts>
void log_info(const Parts&... parts) {
  if (is_logged(LogLevel::kInfo)) {
    write_log(LogLevel::kInfo, detail::join(parts...));
  }
}

template <class... Parts>
void log_warning(const Parts&... parts) {
  if (is_logged(LogLevel::kWarning)) {
    write_log(LogLevel::kWarning, detail::join(parts...));
  }
}

template <class... Parts>
void log_error(const Parts&... parts) {
  write_log(LogLevel::kError, detail::join(parts...));
}

/// Whether to colour what is written to `fd`: not if NO_COLOR is set and not
/// empty; else yes if FORCE_COLOR is (and not "0"); else if `fd` is a terminal
/// that is not dumb.
bool uses_color(int fd);

/// Control characters other than line feeds and tabs as \xNN.
std::string escape_controls(std::string_view text);

/// Writes all of `text` to `fd`, in one write(2) where the kernel takes it
/// whole. False when the reader is gone or the disk is full.
bool write_whole(int fd, std::string_view text);

}  // namespace triax
