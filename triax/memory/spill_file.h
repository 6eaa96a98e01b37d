// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "triax/base/descriptor.h"
#include "triax/base/rounding.h"
#include "triax/memory/async_io.h"

namespace triax {

/// Offsets, sizes and memory of a SpillFile's transfers are multiples of it.
inline constexpr int64_t kIoAlignment = 4096;

/// The next multiple of kIoAlignment.
constexpr int64_t round_up_to_io(int64_t nbytes) {
  return round_up(nbytes, kIoAlignment);
}

struct SpillFileOptions {
  IoEngine engine = IoEngine::kBest;
  /// Past the page cache (O_DIRECT), where the file system can.
  bool wants_direct = true;
  /// What lies in it, for messages: "the optimizer state".
  std::string what = "offloaded states";
};

/// Bytes that went either way.
struct IoBytes {
  int64_t read = 0;
  int64_t written = 0;
};

/// Memory's second place: a file of fixed size whose blocks are the disk's
/// from the start on, so that no write finds the disk full. It has no name and
/// no other user may open it; what is left of it after a crash is nothing.
/// Bytes that were never written are 0. Any thread may call.
class SpillFile {
 public:
  /// Throws Error, one sentence with the way out, where the folder takes no
  /// file, or not so much: `nbytes` are rounded up to kIoAlignment; 0 is legal.
  SpillFile(const std::string& dir,
            int64_t nbytes,
            const SpillFileOptions& options = {});
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  /// Starts a transfer of [offset, offset + nbytes) of the file. The memory
  /// must be left alone until the request is done, or its end has waited for
  /// that; transfers of the same bytes must not be under way together.
  IoRequest write(int64_t offset, const void* from, int64_t nbytes);
  IoRequest read(int64_t offset, void* to, int64_t nbytes);

  int64_t nbytes() const { return nbytes_; }
  /// Of the transfers so far.
  IoBytes moved() const;
  bool is_direct() const { return is_direct_; }
  std::string_view engine_name() const { return io_->name(); }

 private:
  IoRequest start(IoTransfer transfer);

  const std::string dir_;
  const std::string what_;
  const int64_t nbytes_;
  const Descriptor file_;
  const bool is_direct_;
  std::atomic<int64_t> read_bytes_ = 0;
  std::atomic<int64_t> written_bytes_ = 0;
  const std::unique_ptr<AsyncIo> io_;  // its end waits, with the file open
};

}  // namespace triax
