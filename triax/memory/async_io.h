// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace triax {

/// What reads and writes beside the thread that asks.
enum class IoEngine {
  kBest,     // the ring where the kernel gives one, else threads
  kRing,     // io_uring
  kThreads,  // pread and pwrite in a few threads
};

/// Bytes of an open file that go to memory or come from it.
struct IoTransfer {
  int fd = -1;
  bool is_write = false;
  int64_t offset = 0;
  std::byte* memory = nullptr;
  int64_t nbytes = 0;
};

/// A transfer that an engine carries out; wait for it before its end.
class PendingIo {
 public:
  virtual ~PendingIo() = default;
  virtual bool is_done() = 0;
  virtual void wait() = 0;
  /// An errno, 0 for success; known when it is done.
  virtual int error() const = 0;
};

/// A transfer under way. Its memory belongs to it until it is done, so its end
/// waits. A default one is done.
class IoRequest {
 public:
  IoRequest() = default;
  /// `what` begins the sentence of a failure: "the file of …".
  IoRequest(std::unique_ptr<PendingIo> pending, std::string what);
  IoRequest(IoRequest&& other) noexcept = default;
  /// Waits for what it was before.
  IoRequest& operator=(IoRequest&& other) noexcept;
  ~IoRequest();

  bool is_done() const;
  /// Throws Error where the transfer failed, once.
  void wait();

 private:
  std::unique_ptr<PendingIo> pending_;
  std::string what_;
};

/// Starts transfers, many at a time; they end in any order. Any thread may
/// call. Its end waits for all of them.
class AsyncIo {
 public:
  virtual ~AsyncIo() = default;
  virtual std::unique_ptr<PendingIo> start(const IoTransfer& transfer) = 0;
  /// "io_uring", "threads".
  virtual std::string_view name() const = 0;
};

/// Throws Error where the kernel refuses the ring that was asked for.
std::unique_ptr<AsyncIo> make_async_io(IoEngine engine);

}  // namespace triax
