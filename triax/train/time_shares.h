// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "triax/comm/recorder.h"
#include "triax/mesh/device_mesh.h"

namespace triax {

/// Where the ranks' time went, as shares of it: the mean over all ranks.
struct TimeShares {
  double compute = 0;
  double exposed_comm = 0;  // ranks stood still for tp, dp or world
  double total_comm = 0;    // operations under way, beside compute or not
  double bubble = 0;        // stood still for the neighbouring stage
  double data = 0;
  double optimizer = 0;
  double other = 0;
};

/// Adds up a rank's recorded events between two calls.
class TimeAccount {
 public:
  TimeAccount(Board& board, Recorder& recorder);

  /// Adds what was recorded since the last call. Call it after each step: the
  /// recorder keeps its last events only, and time whose events are gone
  /// counts for nothing.
  void add();
  /// The shares since the last call, or since the beginning. Every rank of
  /// the mesh must call.
  TimeShares take(DeviceMesh& mesh);

 private:
  enum Part {
    kCompute,
    kExposed,
    kTransfers,
    kBubble,
    kData,
    kOptimizer,
    kTotal,
    kNumParts
  };

  Recorder& recorder_;
  const int32_t pp_name_;  // waits for this group are the bubble
  uint64_t next_event_ = 0;
  int64_t since_ns_ = 0;
  std::array<double, kNumParts> seconds_{};
};

/// "compute 71% · comm 12% exposed (31% total) · bubble 9% · data 0.3% · …".
std::string to_string(const TimeShares& shares);

}  // namespace triax
