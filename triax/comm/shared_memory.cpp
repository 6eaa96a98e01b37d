// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "triax/base/error.h"

namespace triax {

SharedMemory SharedMemory::create(const char* label, size_t nbytes) {
  const int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    throw Error("shared memory: memfd_create failed: ", std::strerror(errno));
  }
  TRIAX_CHECK(fd > 2, "a standard stream is closed");
  const bool is_ready =
      fchmod(fd, 0600) == 0 && ftruncate(fd, off_t(nbytes)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
  if (!is_ready) {
    const int code = errno;
    close(fd);
    throw Error("shared memory: ",
                nbytes,
                " bytes were refused: ",
                std::strerror(code),
                "; raise `ulimit -f` and `ulimit -v`");
  }
  return SharedMemory(fd, nbytes);
}

SharedMemory SharedMemory::attach(int fd) {
  struct stat status {};
  const bool is_sealed = (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0 &&
                         fcntl(fd, F_GET_SEALS) > 0;
  if (!is_sealed || fstat(fd, &status) != 0) {
    throw Error("shared memory: descriptor ",
                fd,
                " is not shared memory of triax; let the launcher pass it on");
  }
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) {
    throw Error("shared memory: dup failed: ", std::strerror(errno));
  }
  return SharedMemory(own, size_t(status.st_size));
}

SharedMemory::SharedMemory(int fd, size_t nbytes) : fd_(fd), nbytes_(nbytes) {
  void* data = mmap(nullptr,
                    nbytes,
                    PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE,
                    fd,
                    0);
  if (data == MAP_FAILED) {
    const int code = errno;
    close(fd);
    throw Error("shared memory: mapping ",
                nbytes,
                " bytes failed: ",
                std::strerror(code),
                "; raise `ulimit -v`");
  }
  data_ = static_cast<std::byte*>(data);
  madvise(data, nbytes, MADV_DONTDUMP);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      nbytes_(std::exchange(other.nbytes_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) {
    munmap(data_, nbytes_);
    close(fd_);
  }
}

}  // namespace triax
