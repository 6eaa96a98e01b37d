// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace triax {

/// Memory that processes share: a memfd (mode 0600, sealed against resizing),
/// so there is no name to squat and nothing left behind, however the
/// processes end. Zero at first; a page costs memory from its first use.
/// Children inherit the mapping over fork.
class SharedMemory {
 public:
  /// Throws Error where the kernel refuses. The descriptor is close-on-exec.
  static SharedMemory create(const char* label, size_t nbytes);
  /// Maps a descriptor that create() made and that this process inherited;
  /// takes its own duplicate. Throws Error where it is no such thing.
  static SharedMemory attach(int fd);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  int fd() const { return fd_; }

 private:
  SharedMemory(int fd, size_t nbytes);

  int fd_ = -1;
  size_t nbytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace triax
