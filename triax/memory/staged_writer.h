// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <vector>

#include "triax/memory/spill_file.h"

namespace triax {

/// Writes to a file from memory that the caller frees at once: bytes are copied
/// into one of a few buffers of a fixed size, in turn, and written from there
/// while the caller goes on. So what is on its way is bounded by the buffers.
/// What follows in the file on what came before shares its buffer, which is
/// written when it is full or waited for. The end waits for what is under way.
class StagedWriter {
 public:
  /// `file` must outlive this. The buffers count as this thread's memory scope
  /// says.
  StagedWriter(SpillFile& file, int64_t buffer_bytes, int num_buffers);
  StagedWriter(const StagedWriter&) = delete;
  StagedWriter& operator=(const StagedWriter&) = delete;

  /// Any number of bytes, any memory; `offset` a multiple of kIoAlignment. The
  /// file must have room for whole blocks: their rest is written as zeros.
  /// Waits while all buffers are being written, and throws what an earlier
  /// write ran into, each time.
  void write(int64_t offset, const void* from, int64_t nbytes);

  /// The number of the last buffer that write() copied into.
  int64_t last_number() const { return last_number_; }
  /// Waits until the buffers up to this number are written; throws where one
  /// of them was not, each time.
  void wait(int64_t number);

 private:
  struct Buffer {
    at::Tensor bytes;
    int64_t offset = 0;  // in the file
    int64_t used = 0;
    int64_t number = 0;
    IoRequest request;
  };

  Buffer& last() { return buffers_[last_number_ % buffers_.size()]; }
  Buffer& open(int64_t offset);
  void start();
  /// Waits; notes a failure.
  void finish(Buffer& buffer);

  SpillFile& file_;
  const int64_t buffer_bytes_;
  std::vector<Buffer> buffers_;
  int64_t last_number_ = 0;
  bool is_open_ = false;  // the last one is not written yet
  std::exception_ptr failure_;
  int64_t failed_number_ = 0;  // the first
};

}  // namespace triax
