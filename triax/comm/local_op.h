// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "triax/comm/operation.h"

namespace triax {

/// A rank that an operation waits for. It has not even issued its part where
/// the Board's counter is below the target.
struct Awaited {
  int rank = 0;  // in the world
  uint64_t counter = 0;
  uint64_t target = 0;
};

/// One operation of one rank, carried out in small steps by one thread at a
/// time, which never block.
class LocalOp {
 public:
  explicit LocalOp(const OpRecord& record) : record_(record) {}
  LocalOp(const LocalOp&) = delete;
  LocalOp& operator=(const LocalOp&) = delete;
  virtual ~LocalOp() = default;

  const OpRecord& record() const { return record_; }

  /// Does a piece of what can be done now; true where that was anything.
  /// Throws Error where the ranks do not agree.
  virtual bool advance() = 0;
  bool is_done() const { return is_done_; }
  /// When to look again though nobody rings; kNever but under link emulation.
  int64_t wake_ns() const { return wake_ns_.load(std::memory_order_relaxed); }
  /// May be called by another thread than advance().
  virtual std::vector<Awaited> awaited() const = 0;

  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

 protected:
  /// The data has arrived: it is done at `end_ns`. Whether it is now.
  bool finish_at(int64_t end_ns);

 private:
  const OpRecord record_;
  bool is_done_ = false;
  std::atomic<int64_t> wake_ns_{kNever};
};

}  // namespace triax
