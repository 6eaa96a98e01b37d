// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/parallel_dims.h"

#include <algorithm>
#include <sstream>

#include "triax/base/error.h"

namespace triax {

namespace {

std::array<Axis, 3> parse_order(const std::string& text) {
  std::vector<Axis> axes;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, '-');) {
    for (Axis axis : {Axis::kTp, Axis::kPp, Axis::kDp}) {
      if (word == axis_name(axis) &&
          std::count(axes.begin(), axes.end(), axis) == 0) {
        axes.push_back(axis);
      }
    }
  }
  if (axes.size() != 3 || text.size() != 8) {
    throw Error("parallel.order \"",
                text,
                "\" must name tp, pp and dp once each, innermost first, as in "
                "\"tp-pp-dp\"");
  }
  return {axes[0], axes[1], axes[2]};
}

int& member(Coord& coord, Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return coord.tp;
    case Axis::kPp:
      return coord.pp;
    case Axis::kDp:
      return coord.dp;
  }
  TRIAX_CHECK(false, "no such axis");
  return coord.tp;
}

}  // namespace

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return "tp";
    case Axis::kPp:
      return "pp";
    case Axis::kDp:
      return "dp";
  }
  return "?";
}

int Coord::on(Axis axis) const {
  Coord copy = *this;
  return member(copy, axis);
}

int ParallelDims::degree(Axis axis) const {
  return Coord{.dp = dp, .pp = pp, .tp = tp}.on(axis);
}

Coord ParallelDims::coord(int rank) const {
  TRIAX_CHECK(
      rank >= 0 && rank < world_size(), "rank ", rank, " of ", world_size());
  Coord coord;
  for (Axis axis : order) {
    member(coord, axis) = rank % degree(axis);
    rank /= degree(axis);
  }
  return coord;
}

int ParallelDims::rank(const Coord& coord) const {
  int rank = 0;
  int stride = 1;
  for (Axis axis : order) {
    TRIAX_CHECK(coord.on(axis) >= 0 && coord.on(axis) < degree(axis),
                axis_name(axis),
                " rank ",
                coord.on(axis),
                " of ",
                degree(axis));
    rank += stride * coord.on(axis);
    stride *= degree(axis);
  }
  return rank;
}

std::vector<int> ParallelDims::group_ranks(Axis axis, int rank) const {
  std::vector<int> ranks;
  Coord place = coord(rank);
  for (int i = 0; i < degree(axis); ++i) {
    member(place, axis) = i;
    ranks.push_back(this->rank(place));
  }
  return ranks;
}

std::string ParallelDims::name() const {
  std::string name;
  for (Axis axis : {Axis::kDp, Axis::kTp, Axis::kPp}) {
    if (degree(axis) > 1) {
      name += (name.empty() ? "" : "_") + std::string(axis_name(axis)) +
              std::to_string(degree(axis));
    }
  }
  return name.empty() ? "dp1" : name;
}

std::string plan_name(const ParallelConfig& config) {
  std::string name = make_parallel_dims(config).name();
  if (config.zero > 0) {
    name += "_zero" + std::to_string(config.zero);
  }
  if (config.zero > 0 && config.zero_group > 0) {
    name += "_group" + std::to_string(config.zero_group);
  }
  return name;
}

ParallelDims make_parallel_dims(const ParallelConfig& config) {
  const ParallelDims dims = {.tp = config.tp,
                             .pp = config.pp,
                             .dp = config.dp,
                             .order = parse_order(config.order)};
  for (Axis axis : dims.order) {
    if (dims.degree(axis) < 1) {
      throw Error("parallel.",
                  axis_name(axis),
                  " is ",
                  dims.degree(axis),
                  " and must be at least 1");
    }
  }
  return dims;
}

}  // namespace triax
