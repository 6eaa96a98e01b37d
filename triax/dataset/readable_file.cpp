// SPDX-License-Identifier: Apache-2.0
#include "triax/dataset/readable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "triax/base/error.h"

namespace triax {

ReadableFile::ReadableFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for its writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) {
    throw Error(path_, ": cannot be opened: ", std::strerror(errno));
  }
  struct stat status = {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  if (!is_known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(path_, ": is not a regular file");
  }
  nbytes_ = status.st_size;
}

ReadableFile::ReadableFile(ReadableFile&& other) noexcept
    : path_(other.path_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      nbytes_(other.nbytes_) {}

ReadableFile::~ReadableFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void ReadableFile::read_at(int64_t offset, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const int64_t position = offset + static_cast<int64_t>(done);
    const ssize_t count = ::pread(
        descriptor_, bytes.data() + done, bytes.size() - done, position);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw Error(
          path_, ": offset ", position, ": read: ", std::strerror(errno));
    }
    if (count == 0) {
      throw Error(path_,
                  ": offset ",
                  position,
                  ": the file ends here, but had ",
                  nbytes_,
                  " bytes when it was opened; it must not change while a run "
                  "reads it");
    }
    done += static_cast<size_t>(count);
  }
}

}  // namespace triax
