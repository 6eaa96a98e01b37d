// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// A direction of the mesh.
enum class Axis { kTp, kPp, kDp };

/// "tp", "pp", "dp".
std::string_view axis_name(Axis axis);

/// A rank's place on each axis.
struct Coord {
  int dp = 0;
  int pp = 0;
  int tp = 0;

  bool operator==(const Coord&) const = default;
  int on(Axis axis) const;
};

/// The degrees of the axes and the order in which ranks are counted.
struct ParallelDims {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  /// Innermost first: neighbours along order[0] have consecutive ranks.
  std::array<Axis, 3> order = {Axis::kTp, Axis::kPp, Axis::kDp};

  int world_size() const { return tp * pp * dp; }
  int degree(Axis axis) const;
  /// 0 <= rank < world_size().
  Coord coord(int rank) const;
  int rank(const Coord& coord) const;
  /// The ranks that differ from `rank` only along `axis`, itself included, in
  /// the order of their place on it.
  std::vector<int> group_ranks(Axis axis, int rank) const;
  /// "dp2_tp2_pp2": axes of degree 1 are left out, "dp1" when all are 1.
  std::string name() const;
};

/// A layout in one word: the dims' name and what is split otherwise,
/// "dp4_pp2_zero1", "dp4_zero2_group2". dp must be resolved.
std::string plan_name(const ParallelConfig& config);

/// Reads the degrees and `order` ("tp-pp-dp", innermost first); dp must be
/// resolved. Throws Error when order does not name each axis once or a degree
/// is below 1.
ParallelDims make_parallel_dims(const ParallelConfig& config);

}  // namespace triax
