// SPDX-License-Identifier: Apache-2.0
#include "cli/check_fix.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "triax/base/byte_order_mark.h"
#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/log.h"
#include "triax/check/apply_edits.h"

namespace triax {
namespace {

// A file that is open to be written, whose bytes can be replaced.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : path_(path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      fail(std::strerror(errno));
    }
    // The superuser may open it all the same; who took the permission away
    // meant it.
    if ((status.st_mode & 0222) == 0) {
      fail("it is read-only");
    }
    fd_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd_ < 0) {
      fail(std::strerror(errno));
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  // Puts the old text back where the new one cannot be written whole.
  void replace(const std::string& old_text, const std::string& new_text) {
    if (write(new_text)) {
      return;
    }
    const std::string reason = std::strerror(errno);
    if (!write(old_text)) {
      throw Error("cannot fix ",
                  path_,
                  ": ",
                  reason,
                  "; it was written in part, and could not be put back");
    }
    fail(reason);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("cannot fix ", path_, ": ", reason, "; nothing was written");
  }

  bool write(std::string_view text) const {
    const auto num_bytes = static_cast<off_t>(text.size());
    off_t offset = 0;
    while (offset < num_bytes) {
      const ssize_t count = ::pwrite(fd_,
                                     text.data() + offset,
                                     static_cast<size_t>(num_bytes - offset),
                                     offset);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return false;
      }
      offset += count;
    }
    return ::ftruncate(fd_, num_bytes) == 0 && ::fsync(fd_) == 0;
  }

  std::string path_;
  int fd_ = -1;
};

void fix_input(CheckInput& input,
               const std::vector<Problem>& problems,
               const ForeignContext& context) {
  EditedText edited = apply_edits(input.text, input.file, problems);
  if (edited.num_edits == 0) {
    return;
  }
  const std::string mark(input.has_mark ? kByteOrderMark : std::string_view());
  const std::string now = read_file(
      input.file,
      static_cast<int64_t>(std::max(input.text.size(), edited.text.size()) +
                           mark.size()));
  // The same file under two names is fixed once.
  if (now != mark + edited.text) {
    OpenFile file(input.file);
    if (now != mark + input.text) {
      throw Error(input.file,
                  " changed while it was checked; nothing was fixed");
    }
    file.replace(mark + input.text, mark + edited.text);
    fmt::print(stderr, "{}", escape_controls(edited.diff));
  }
  input.text = std::move(edited.text);
  parse_input(input, context);
}

}  // namespace

void fix_inputs(std::vector<CheckInput>& inputs,
                const std::vector<Problem>& problems,
                const ForeignContext& context) {
  for (CheckInput& input : inputs) {
    if (!input.text.empty() && !input.problem) {
      fix_input(input, problems, context);
    }
  }
}

}  // namespace triax
