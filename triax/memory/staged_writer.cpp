// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/staged_writer.h"

#include <algorithm>
#include <cstring>

#include "triax/base/error.h"
#include "triax/memory/io_buffer.h"

namespace triax {

StagedWriter::StagedWriter(SpillFile& file,
                           int64_t buffer_bytes,
                           int num_buffers)
    : file_(file),
      buffer_bytes_(round_up_to_io(buffer_bytes)),
      buffers_(num_buffers) {
  TRIAX_CHECK(buffer_bytes > 0 && num_buffers > 0, "no buffers");
  for (Buffer& buffer : buffers_) {
    buffer.bytes = make_io_buffer(buffer_bytes_);
  }
}

void StagedWriter::write(int64_t offset, const void* from, int64_t nbytes) {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  const auto* next = static_cast<const std::byte*>(from);
  while (nbytes > 0) {
    Buffer& buffer = open(offset);
    const int64_t taken = std::min(nbytes, buffer_bytes_ - buffer.used);
    const int64_t rest = round_up_to_io(taken) - taken;
    auto* const to =
        static_cast<std::byte*>(buffer.bytes.data_ptr()) + buffer.used;
    std::memcpy(to, next, taken);
    std::memset(to + taken, 0, rest);
    buffer.used += taken + rest;
    next += taken;
    offset += taken + rest;
    nbytes -= taken;
    if (buffer.used == buffer_bytes_) {
      start();
    }
  }
}

void StagedWriter::wait(int64_t number) {
  if (is_open_ && last_number_ <= number) {
    start();
  }
  for (Buffer& buffer : buffers_) {
    if (buffer.number <= number) {
      finish(buffer);
    }
  }
  if (failure_ && failed_number_ <= number) {
    std::rethrow_exception(failure_);
  }
}

void StagedWriter::finish(Buffer& buffer) {
  try {
    buffer.request.wait();
  } catch (const Error&) {
    if (!failure_ || buffer.number < failed_number_) {
      failure_ = std::current_exception();
      failed_number_ = buffer.number;
    }
  }
}

StagedWriter::Buffer& StagedWriter::open(int64_t offset) {
  if (is_open_) {
    if (last().offset + last().used == offset) {
      return last();
    }
    start();
  }
  Buffer& next = buffers_[(last_number_ + 1) % buffers_.size()];
  finish(next);
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  next.offset = offset;
  next.used = 0;
  next.number = ++last_number_;
  is_open_ = true;
  return next;
}

void StagedWriter::start() {
  is_open_ = false;
  Buffer& buffer = last();
  buffer.request =
      file_.write(buffer.offset, buffer.bytes.data_ptr(), buffer.used);
}

}  // namespace triax
