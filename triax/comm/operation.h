// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string_view>

#include "triax/base/dtype.h"

namespace triax {

enum class ReduceOp : uint8_t { kSum, kAvg, kMax };

using CallSite = std::source_location;

enum class OpKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kSplit,
  kSend,
  kReceive,
};

constexpr bool is_message(OpKind op) {
  return op == OpKind::kSend || op == OpKind::kReceive;
}

/// "all_reduce", …
constexpr std::string_view op_name(OpKind op) {
  constexpr std::string_view kNames[] = {"all_reduce",
                                         "all_gather",
                                         "reduce_scatter",
                                         "broadcast",
                                         "all_to_all",
                                         "barrier",
                                         "split",
                                         "send",
                                         "recv"};
  return kNames[int(op)];
}

/// "sum", "avg", "max".
constexpr std::string_view reduce_op_name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "max"};
  return kNames[int(op)];
}

/// What one rank asked for, as it travels with the operation and stands on the
/// Board. The ids are the Board's.
struct OpRecord {
  OpKind op = OpKind::kBarrier;
  DType dtype = DType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  int32_t peer = -1;        // a root or the other rank, counted in the group
  int32_t peer_world = -1;  // the same, counted in the world
  int32_t name = 0;         // Board::name_id of the group
  uint32_t site = 0;        // Board::site_id
  uint64_t group = 0;       // tells groups of one name apart
  int64_t number = 0;       // of the group's collectives, or of the messages
                            // between two ranks in this direction
  int64_t numel = 0;
};

}  // namespace triax
