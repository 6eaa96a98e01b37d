// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace triax {

/// A regular file that is read at offsets. Not mapped: a file that shrinks or
/// a disk that fails while a run reads it is then an Error that names file and
/// offset, where a mapping would end the rank with SIGBUS. Safe to read from
/// several threads.
class ReadableFile {
 public:
  /// Throws Error when `path` cannot be opened or is no regular file.
  explicit ReadableFile(std::string path);
  ReadableFile(ReadableFile&& other) noexcept;
  ReadableFile& operator=(ReadableFile&&) = delete;
  ~ReadableFile();

  const std::string& path() const { return path_; }
  /// Bytes when it was opened.
  int64_t nbytes() const { return nbytes_; }

  /// Fills `bytes` from `offset`. Throws Error when the file ends before.
  void read_at(int64_t offset, std::span<std::byte> bytes) const;

 private:
  const std::string path_;
  int descriptor_ = -1;
  int64_t nbytes_ = 0;
};

}  // namespace triax
