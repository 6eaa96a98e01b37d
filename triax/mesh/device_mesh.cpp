// SPDX-License-Identifier: Apache-2.0
#include "triax/mesh/device_mesh.h"

#include <string>

#include "triax/base/error.h"

namespace triax {
namespace {

/// Ranks with equal coordinates but for `axis` get the same colour.
int color_without(const ParallelDims& dims, Coord coord, Axis axis) {
  switch (axis) {
    case Axis::kTp:
      coord.tp = 0;
      break;
    case Axis::kPp:
      coord.pp = 0;
      break;
    case Axis::kDp:
      coord.dp = 0;
      break;
  }
  return dims.rank(coord);
}

int position(const Coord& coord, Axis axis) {
  return axis == Axis::kTp ? coord.tp
                           : (axis == Axis::kPp ? coord.pp : coord.dp);
}

}  // namespace

DeviceMesh::DeviceMesh(const ParallelDims& dims, std::unique_ptr<Group> world)
    : dims_(dims),
      world_(std::move(world)),
      coord_(dims_.coord(world_->rank())) {
  TRIAX_CHECK(world_->size() == dims_.world_size(),
              "the world has ",
              world_->size(),
              " ranks, the mesh ",
              dims_.world_size());
  for (Axis axis : {Axis::kTp, Axis::kPp, Axis::kDp}) {
    groups_[static_cast<size_t>(axis)] =
        world_->split(color_without(dims_, coord_, axis),
                      position(coord_, axis),
                      std::string(axis_name(axis)));
  }
  if (dims_.pp > 1) {
    const bool is_end = is_first_stage() || is_last_stage();
    tied_stages_ = group(Axis::kPp).split(is_end ? 0 : -1, coord_.pp, "tied");
  }
}

}  // namespace triax
