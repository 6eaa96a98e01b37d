// SPDX-License-Identifier: Apache-2.0
#include "triax/base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

namespace triax {
namespace {

struct Sink {
  std::mutex mutex;
  std::atomic<LogLevel> level = LogLevel::kInfo;
  int rank = -1;
  int file = -1;
  bool to_stderr = true;
};

// Never destroyed: a thread may still log while the process ends.
Sink& sink() {
  static Sink* const instance = new Sink;
  return *instance;
}

struct Label {
  const char* name;
  const char* color;
};

Label label(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return {"debug: ", "\033[2m"};
    case LogLevel::kInfo:
      return {"", ""};
    case LogLevel::kWarning:
      return {"warning: ", "\033[33m"};
    case LogLevel::kError:
      return {"error: ", "\033[31m"};
  }
  return {"", ""};
}

std::string utc_now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
                     parts.tm_year + 1900,
                     parts.tm_mon + 1,
                     parts.tm_mday,
                     parts.tm_hour,
                     parts.tm_min,
                     parts.tm_sec,
                     now.tv_nsec / 1000000);
}

void write_entry(LogLevel level, std::string_view text, bool to_stderr) {
  std::string body = escape_controls(text);
  while (!body.empty() && body.back() == '\n') {
    body.pop_back();
  }
  const Label name = label(level);
  Sink& out = sink();
  const std::lock_guard<std::mutex> lock(out.mutex);
  const std::string rank =
      out.rank < 0 ? "" : fmt::format("rank {}: ", out.rank);
  if (out.file >= 0) {
    write_whole(out.file,
                fmt::format("{} {}{}{}\n", utc_now(), rank, name.name, body));
  }
  if (to_stderr && out.to_stderr) {
    const bool color = *name.color != '\0' && uses_color(STDERR_FILENO);
    write_whole(STDERR_FILENO,
                fmt::format("{}{}{}{}{}\n",
                            rank,
                            color ? name.color : "",
                            name.name,
                            color ? "\033[0m" : "",
                            body));
  }
}

}  // namespace

void configure_log(const LogOptions& options) {
  int file = -1;
  if (!options.file.empty()) {
    file = open(
        options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) {
      throw Error("the log file ",
                  options.file,
                  " cannot be opened: ",
                  std::strerror(errno),
                  "; name a folder that exists and can be written");
    }
  }
  Sink& out = sink();
  const std::lock_guard<std::mutex> lock(out.mutex);
  if (out.file >= 0) {
    close(out.file);
  }
  out.file = file;
  out.level = options.level;
  out.rank = options.rank;
  out.to_stderr = options.to_stderr;
}

LogLevel parse_log_level(std::string_view text) {
  if (text == "debug") {
    return LogLevel::kDebug;
  }
  if (text == "info") {
    return LogLevel::kInfo;
  }
  if (text == "warning") {
    return LogLevel::kWarning;
  }
  if (text == "error") {
    return LogLevel::kError;
  }
  throw Error("\"",
              escape_controls(text),
              "\" is not a log level; write debug, info, warning or error");
}

bool is_logged(LogLevel level) {
  return level >= sink().level.load(std::memory_order_relaxed);
}

void write_log(LogLevel level, std::string_view text) {
  if (is_logged(level)) {
    write_entry(level, text, true);
  }
}

void write_log_file(LogLevel level, std::string_view text) {
  if (is_logged(level)) {
    write_entry(level, text, false);
  }
}

bool uses_color(int fd) {
  const char* const no = std::getenv("NO_COLOR");
  if (no != nullptr && *no != '\0') {
    return false;
  }
  const char* const force = std::getenv("FORCE_COLOR");
  if (force != nullptr && *force != '\0' && std::strcmp(force, "0") != 0) {
    return true;
  }
  const char* const terminal = std::getenv("TERM");
  return isatty(fd) == 1 &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

namespace {

// U+0080 to U+009F, which some terminals obey as they do ESC.
bool is_c1(std::string_view text) {
  const auto second = text.size() < 2 ? 0 : static_cast<unsigned char>(text[1]);
  return text.starts_with('\xc2') && second >= 0x80 && second <= 0x9f;
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (is_c1(text.substr(i))) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += c;
    }
  }
  return out;
}

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return false;
    }
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  return true;
}

}  // namespace triax
