// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "triax/comm/operation.h"

namespace triax {

/// A slower network than the one at hand: operations of a group end no
/// earlier than they would on this link. Off by default.
struct LinkEmulation {
  double latency_seconds = 0.0;   // alpha, of one message
  double bytes_per_second = 0.0;  // beta, one way; 0: no limit
  double jitter = 0.0;            // each cost times 1 + jitter * [0, 1)
  uint64_t seed = 0;              // of the jitter; equal on every rank

  bool is_on() const { return latency_seconds > 0.0 || bytes_per_second > 0.0; }
};

/// Seconds of an operation over a link, n ranks, S bytes of the full tensor:
/// ring all_reduce 2(n-1) alpha + 2(n-1)/n S/beta; all_gather, reduce_scatter
/// and all_to_all (n-1) alpha + (n-1)/n S/beta; send and recv alpha + S/beta;
/// broadcast along a pipelined ring (n-1) alpha + S/beta; a barrier is an
/// empty all_reduce, a split an empty all_gather. 0 for one rank.
double emulated_seconds(OpKind op,
                        int group_size,
                        int64_t bytes,
                        const LinkEmulation& link);

/// The outgoing link of one rank in one group: transfers follow each other.
/// Incoming messages are priced by their senders' links only.
class LinkQueue {
 public:
  void set(const LinkEmulation& link) { link_ = link; }
  bool is_on() const { return link_.is_on(); }

  int64_t cost_ns(OpKind op,
                  int group_size,
                  int64_t bytes,
                  int64_t number) const;
  /// When a transfer could start that is ready at `ready_ns`.
  int64_t start_ns(int64_t ready_ns) const;
  /// The link is taken until `end_ns`.
  void occupy(int64_t end_ns);
  /// A transfer that waits for nobody: takes the link, gives its end.
  int64_t reserve(int64_t ready_ns, int64_t cost_ns);

 private:
  LinkEmulation link_;
  std::atomic<int64_t> free_ns_{0};
};

}  // namespace triax
