// SPDX-License-Identifier: Apache-2.0
#include "triax/comm/emulation.h"

#include <algorithm>

namespace triax {

namespace {

/// splitmix64, to [0, 1).
double random_unit(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return double((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

double emulated_seconds(OpKind op,
                        int group_size,
                        int64_t bytes,
                        const LinkEmulation& link) {
  if (group_size <= 1) {
    return 0.0;
  }
  const double others = group_size - 1;
  const double alpha = link.latency_seconds;
  const double transfer =
      link.bytes_per_second > 0.0 ? double(bytes) / link.bytes_per_second : 0.0;
  switch (op) {
    case OpKind::kAllReduce:
      return 2 * others * alpha + 2 * others / group_size * transfer;
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll:
      return others * alpha + others / group_size * transfer;
    case OpKind::kBroadcast:
      return others * alpha + transfer;
    case OpKind::kBarrier:
      return 2 * others * alpha;
    case OpKind::kSplit:
      return others * alpha;
    case OpKind::kSend:
    case OpKind::kReceive:
      return alpha + transfer;
  }
  return 0.0;
}

int64_t LinkQueue::cost_ns(OpKind op,
                           int group_size,
                           int64_t bytes,
                           int64_t number) const {
  const uint64_t draw =
      (link_.seed << 32) + (uint64_t(op) << 56) + uint64_t(number);
  const double factor = 1.0 + link_.jitter * random_unit(draw);
  return int64_t(emulated_seconds(op, group_size, bytes, link_) * factor * 1e9);
}

int64_t LinkQueue::start_ns(int64_t ready_ns) const {
  return std::max(ready_ns, free_ns_.load());
}

void LinkQueue::occupy(int64_t end_ns) {
  int64_t free = free_ns_.load();
  while (free < end_ns && !free_ns_.compare_exchange_weak(free, end_ns)) {
  }
}

int64_t LinkQueue::reserve(int64_t ready_ns, int64_t cost_ns) {
  int64_t free = free_ns_.load();
  int64_t end = 0;
  do {
    end = std::max(free, ready_ns) + cost_ns;
  } while (!free_ns_.compare_exchange_weak(free, end));
  return end;
}

}  // namespace triax
