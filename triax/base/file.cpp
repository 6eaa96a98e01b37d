// SPDX-License-Identifier: Apache-2.0
#include "triax/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "triax/base/descriptor.h"
#include "triax/base/error.h"

namespace triax {
namespace {

std::string reason() {
  return std::strerror(errno);
}

// Without O_NONBLOCK, opening a pipe would wait for its writer.
int open_regular(const std::string& path, int64_t& num_bytes) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    throw Error("cannot read a file: its path is ",
                path.empty() ? "empty" : "cut by a NUL byte");
  }
  const int fd =
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) {
    throw Error("cannot read ", path, ": ", reason());
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    const bool is_folder = S_ISDIR(status.st_mode);
    ::close(fd);
    throw Error("cannot read ",
                path,
                is_folder ? ": it is a folder, not a file"
                          : ": it is a pipe or a device, not a regular file");
  }
  num_bytes = status.st_size;
  return fd;
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      throw Error("cannot write ", path, ": ", reason());
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void sync_folder(const std::string& folder) {
  const Descriptor fd(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) {
    throw Error("cannot sync the folder ", folder, ": ", reason());
  }
}

// Not mkstemp: its files are private whatever the umask.
int create_temporary(const std::string& path, std::string& temporary) {
  static std::atomic<int> counter = 0;
  for (;;) {
    temporary = path + ".tmp" + std::to_string(::getpid()) + "." +
                std::to_string(counter++);
    const int fd = ::open(
        temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) {
      return fd;
    }
  }
}

// The file that is replaced keeps its permissions.
void copy_mode(const std::string& from, int fd) {
  struct stat old {};
  if (::stat(from.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    ::fchmod(fd, old.st_mode & 07777);
  }
}

}  // namespace

std::string read_file(const std::string& path, int64_t cap_bytes) {
  int64_t num_bytes = 0;
  const Descriptor fd(open_regular(path, num_bytes));
  // A file of /proc says 0 bytes, and a file may grow: read to the end.
  std::string text;
  char block[1 << 16];
  while (num_bytes <= cap_bytes) {
    const ssize_t count = ::read(fd.get(), block, sizeof(block));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      throw Error("cannot read ", path, ": ", reason());
    }
    if (count == 0) {
      return text;
    }
    text.append(block, static_cast<size_t>(count));
    num_bytes = std::max(num_bytes, static_cast<int64_t>(text.size()));
  }
  throw Error("cannot read ",
              path,
              ": it holds ",
              num_bytes,
              " bytes or more, and at most ",
              cap_bytes,
              " are read");
}

void write_file_atomically(const std::string& path, std::string_view text) {
  const std::filesystem::path target(path);
  const std::string folder =
      target.has_parent_path() ? target.parent_path().string() : ".";
  std::string temporary;
  const Descriptor fd(create_temporary(path, temporary));
  if (fd.get() < 0) {
    throw Error("cannot write ", path, ": ", reason());
  }
  try {
    copy_mode(path, fd.get());
    write_all(fd.get(), text, path);
    if (::fsync(fd.get()) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
      throw Error("cannot write ", path, ": ", reason());
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(folder);
}

MappedFile::MappedFile(const std::string& path) {
  int64_t num_bytes = 0;
  const Descriptor fd(open_regular(path, num_bytes));
  if (num_bytes == 0) {
    return;
  }
  void* data = ::mmap(nullptr,
                      static_cast<size_t>(num_bytes),
                      PROT_READ,
                      MAP_PRIVATE,
                      fd.get(),
                      0);
  if (data == MAP_FAILED) {
    throw Error("cannot map ", path, ": ", reason());
  }
  data_ = static_cast<const std::byte*>(data);
  num_bytes_ = static_cast<size_t>(num_bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      num_bytes_(std::exchange(other.num_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    data_ = std::exchange(other.data_, nullptr);
    num_bytes_ = std::exchange(other.num_bytes_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() {
  unmap();
}

void MappedFile::unmap() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), num_bytes_);
  }
}

}  // namespace triax
