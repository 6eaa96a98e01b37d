// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/async_io.h"

#include <cstring>
#include <utility>

#include "triax/base/error.h"
#include "triax/memory/io_engines.h"

namespace triax {

IoRequest::IoRequest(std::unique_ptr<PendingIo> pending, std::string what)
    : pending_(std::move(pending)), what_(std::move(what)) {}

IoRequest& IoRequest::operator=(IoRequest&& other) noexcept {
  if (pending_) {
    pending_->wait();
  }
  pending_ = std::move(other.pending_);
  what_ = std::move(other.what_);
  return *this;
}

IoRequest::~IoRequest() {
  if (pending_) {
    pending_->wait();
  }
}

bool IoRequest::is_done() const {
  return !pending_ || pending_->is_done();
}

void IoRequest::wait() {
  if (!pending_) {
    return;
  }
  pending_->wait();
  const int error = std::exchange(pending_, nullptr)->error();
  if (error != 0) {
    throw Error(what_, ": ", std::strerror(error));
  }
}

std::unique_ptr<AsyncIo> make_async_io(IoEngine engine) {
  if (engine != IoEngine::kThreads) {
    if (std::unique_ptr<AsyncIo> ring = detail::make_ring_io()) {
      return ring;
    }
    if (engine == IoEngine::kRing) {
      throw Error(
          "the kernel has no io_uring for this process; use threads instead");
    }
  }
  return detail::make_thread_io();
}

}  // namespace triax
