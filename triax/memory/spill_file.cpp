// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/spill_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/folder_space.h"
#include "triax/base/units.h"

namespace triax {
namespace {

constexpr const char* kOtherFolder =
    "set memory.offload_dir to another folder, or offload less "
    "(memory.offload_states)";

/// A file without a name that its user alone may open; -1 with errno.
int open_nameless(const std::string& dir) {
  constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
  const int fd =
      ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, kOwnerOnly);
  if (fd >= 0) {
    return fd;
  }
  // The file system cannot: a name that lives for an instant.
  std::string path = dir + "/triax-offload-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) {
    ::unlink(path.c_str());
  }
  return named;
}

void refuse_above_file_limit(const std::string& dir,
                             int64_t nbytes,
                             const std::string& what) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY &&
      static_cast<uint64_t>(nbytes) > limit.rlim_cur) {
    // Asking for it anyway would be answered by a signal.
    throw Error(what,
                " takes a file of ",
                format_bytes(nbytes),
                " in ",
                dir,
                ", and the limit on this process' files is ",
                format_bytes(static_cast<int64_t>(limit.rlim_cur)),
                "; raise it (ulimit -f), or offload less "
                "(memory.offload_states)");
  }
}

Error full_disk(const std::string& dir,
                int64_t nbytes,
                const std::string& what) {
  return Error(what,
               " takes ",
               format_bytes(nbytes),
               " in ",
               dir,
               ", where ",
               format_bytes(folder_space(dir).free_bytes),
               " are free; free some, ",
               kOtherFolder);
}

/// Blocks for all of it, now.
void allocate(int fd,
              const std::string& dir,
              int64_t nbytes,
              const std::string& what) {
  if (nbytes == 0) {
    return;
  }
  refuse_above_file_limit(dir, nbytes, what);
  // Before asking: on the way to its refusal the disk would be full for all.
  if (!folder_space(dir).may_hold(nbytes)) {
    throw full_disk(dir, nbytes, what);
  }
  int error = 0;
  do {
    error = ::posix_fallocate(fd, 0, nbytes);
  } while (error == EINTR);
  if (error == ENOSPC || error == EDQUOT) {
    throw full_disk(dir, nbytes, what);
  }
  if (error != 0) {
    throw Error(what,
                " takes a file of ",
                format_bytes(nbytes),
                " in ",
                dir,
                ", which cannot be made: ",
                std::strerror(error),
                "; ",
                kOtherFolder);
  }
}

Descriptor make_file(const std::string& dir,
                     int64_t nbytes,
                     const std::string& what) {
  Descriptor file(open_nameless(dir));
  if (file.get() < 0) {
    throw Error("no file for ",
                what,
                " can be made in ",
                dir,
                ": ",
                std::strerror(errno),
                "; ",
                kOtherFolder);
  }
  allocate(file.get(), dir, nbytes, what);
  return file;
}

/// Whether the file is now read and written past the page cache. Some file
/// systems refuse the flag, others the first transfer.
bool make_direct(int fd, int64_t nbytes) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (nbytes == 0 || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    return false;
  }
  alignas(kIoAlignment) std::byte block[kIoAlignment];
  if (::pread(fd, block, sizeof(block), 0) == kIoAlignment) {
    return true;
  }
  ::fcntl(fd, F_SETFL, flags);
  return false;
}

}  // namespace

SpillFile::SpillFile(const std::string& dir,
                     int64_t nbytes,
                     const SpillFileOptions& options)
    : dir_(dir),
      what_(options.what),
      nbytes_(round_up_to_io(nbytes)),
      file_(make_file(dir, nbytes_, options.what)),
      is_direct_(options.wants_direct && make_direct(file_.get(), nbytes_)),
      io_(make_async_io(options.engine)) {}

IoRequest SpillFile::write(int64_t offset, const void* from, int64_t nbytes) {
  written_bytes_ += nbytes;
  return start({.is_write = true,
                .offset = offset,
                .memory = static_cast<std::byte*>(const_cast<void*>(from)),
                .nbytes = nbytes});
}

IoRequest SpillFile::read(int64_t offset, void* to, int64_t nbytes) {
  read_bytes_ += nbytes;
  return start({.is_write = false,
                .offset = offset,
                .memory = static_cast<std::byte*>(to),
                .nbytes = nbytes});
}

IoRequest SpillFile::start(IoTransfer transfer) {
  TRIAX_CHECK(transfer.offset >= 0 && transfer.nbytes >= 0 &&
                  transfer.offset + transfer.nbytes <= nbytes_,
              transfer.nbytes,
              " bytes at ",
              transfer.offset,
              " of ",
              nbytes_);
  TRIAX_CHECK(transfer.offset % kIoAlignment == 0 &&
                  transfer.nbytes % kIoAlignment == 0 &&
                  reinterpret_cast<uintptr_t>(transfer.memory) %
                          static_cast<uintptr_t>(kIoAlignment) ==
                      0,
              "unaligned");
  transfer.fd = file_.get();
  // Made first: nothing may throw once the transfer is under way.
  std::string trouble = detail::join("the file of ",
                                     what_,
                                     " in ",
                                     dir_,
                                     " cannot be ",
                                     transfer.is_write ? "written" : "read");
  return IoRequest(io_->start(transfer), std::move(trouble));
}

IoBytes SpillFile::moved() const {
  return {.read = read_bytes_, .written = written_bytes_};
}

}  // namespace triax
