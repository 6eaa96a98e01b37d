// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace triax {

/// The whole of a regular file. Throws Error when it cannot be opened, is a
/// folder, a pipe or a device, or holds more than `cap_bytes`. Never blocks.
std::string read_file(const std::string& path, int64_t cap_bytes);

/// Replaces `path` by `text` in one step: a reader sees the old file or the
/// new one, after a crash too (a temporary file beside it, fsync, rename,
/// fsync of the folder). The new file has the old one's permissions. Throws
/// Error; the old file then still stands.
void write_file_atomically(const std::string& path, std::string_view text);

/// A regular file mapped read-only for as long as this lives. An empty file
/// has no bytes. Throws Error as read_file does.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, num_bytes_}; }

 private:
  void unmap();

  const std::byte* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace triax
