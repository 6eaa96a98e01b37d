// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/local_channel.h"

#include <algorithm>
#include <cstring>

#include "triax/base/error.h"
#include "triax/base/rounding.h"

namespace triax {

namespace {

constexpr int64_t kUnit = 64;
constexpr int64_t kHeaderBytes = sizeof(MessageHeader);
static_assert(kHeaderBytes == kUnit && kChannelBytes % kUnit == 0);
/// The other side begins with a piece while this side goes on.
constexpr int64_t kPieceBytes = kChannelBytes / 4;

int64_t pad(int64_t nbytes) {
  return round_up(nbytes, kUnit);
}

/// Bytes from `position` to where the ring wraps.
int64_t contiguous(int64_t position) {
  return kChannelBytes - position % kChannelBytes;
}

}  // namespace

LocalSend::LocalSend(LocalGroupState& group,
                     const OpRecord& record,
                     ConstBuffer in,
                     int64_t end_ns)
    : LocalOp(record),
      group_(group),
      channel_(group.block.channel(group.rank, record.peer)),
      in_(in),
      end_ns_(end_ns) {}

int64_t LocalSend::room() const {
  const int64_t written = channel_.written.load(std::memory_order_relaxed);
  return kChannelBytes - (written - channel_.read.load());
}

void LocalSend::publish(int64_t nbytes) {
  channel_.written.store(channel_.written.load(std::memory_order_relaxed) +
                         nbytes);
  ring(group_.context->board->bell(record().peer_world));
}

bool LocalSend::advance() {
  const int64_t left = in_.nbytes() - num_sent_;
  if (has_header_ && left == 0) {
    return finish_at(end_ns_);
  }
  const int64_t position = channel_.written.load(std::memory_order_relaxed);
  int64_t header = has_header_ ? 0 : kHeaderBytes;
  if (room() < header + std::min(left, kUnit)) {
    return false;
  }
  std::byte* to = channel_.bytes.data() + position % kChannelBytes;
  if (!has_header_) {
    *reinterpret_cast<MessageHeader*>(to) = {record(), end_ns_};
    has_header_ = true;
    to = channel_.bytes.data() + (position + header) % kChannelBytes;
  }
  const int64_t nbytes = std::min(
      {left, kPieceBytes, room() - header, contiguous(position + header)});
  if (nbytes > 0) {
    std::memcpy(to,
                static_cast<const std::byte*>(in_.data) + num_sent_,
                size_t(nbytes));
    num_sent_ += nbytes;
  }
  publish(header + pad(nbytes));
  if (num_sent_ == in_.nbytes()) {
    finish_at(end_ns_);
  }
  return true;
}

std::vector<Awaited> LocalSend::awaited() const {
  return {{record().peer_world,
           group_.receive_counter(record().peer, group_.rank),
           uint64_t(record().number) + 1}};
}

LocalReceive::LocalReceive(LocalGroupState& group,
                           const OpRecord& record,
                           Buffer out)
    : LocalOp(record),
      group_(group),
      channel_(group.block.channel(record.peer, group.rank)),
      out_(out) {}

void LocalReceive::publish(int64_t nbytes) {
  channel_.read.store(channel_.read.load(std::memory_order_relaxed) + nbytes);
  ring(group_.context->board->bell(record().peer_world));
}

void LocalReceive::read_header() {
  const int64_t position = channel_.read.load(std::memory_order_relaxed);
  const MessageHeader header = *reinterpret_cast<const MessageHeader*>(
      channel_.bytes.data() + position % kChannelBytes);
  has_header_ = true;
  end_ns_ = header.ready_ns;
  if (header.record.numel != record().numel ||
      header.record.dtype != record().dtype ||
      header.record.number != record().number) {
    const Board& board = *group_.context->board;
    group_.context->fail(
        detail::join("rank ",
                     record().peer_world,
                     " called ",
                     board.describe(header.record),
                     " but rank ",
                     group_.context->rank,
                     " called ",
                     board.describe(record()),
                     "; a message must be received with the count and dtype "
                     "that it was sent with, and in the same order"));
  }
}

bool LocalReceive::advance() {
  if (has_header_ && num_received_ == out_.nbytes()) {
    return finish_at(end_ns_);
  }
  int64_t ready =
      channel_.written.load() - channel_.read.load(std::memory_order_relaxed);
  if (ready == 0) {
    return false;
  }
  int64_t header = 0;
  if (!has_header_) {
    read_header();
    header = kHeaderBytes;
    ready -= header;
  }
  const int64_t position =
      channel_.read.load(std::memory_order_relaxed) + header;
  const int64_t nbytes = std::min({out_.nbytes() - num_received_,
                                   kPieceBytes,
                                   ready,
                                   contiguous(position)});
  if (nbytes > 0) {
    std::memcpy(static_cast<std::byte*>(out_.data) + num_received_,
                channel_.bytes.data() + position % kChannelBytes,
                size_t(nbytes));
    num_received_ += nbytes;
  }
  publish(header + pad(nbytes));
  if (num_received_ == out_.nbytes()) {
    finish_at(end_ns_);
  }
  return true;
}

std::vector<Awaited> LocalReceive::awaited() const {
  return {{record().peer_world,
           group_.send_counter(record().peer, group_.rank),
           uint64_t(record().number) + 1}};
}

}  // namespace triax
