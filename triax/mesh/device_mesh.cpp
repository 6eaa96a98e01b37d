// SPDX-License-Identifier: Apache-2.0
#include "triax/mesh/device_mesh.h"

#include <string>

#include "triax/base/error.h"

namespace triax {

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
        world_->split(dims_.group_ranks(axis, world_->rank()).front(),
                      coord_.on(axis),
                      std::string(axis_name(axis)));
  }
  if (dims_.pp > 1) {
    const bool is_end = is_first_stage() || is_last_stage();
    tied_stages_ = group(Axis::kPp).split(is_end ? 0 : -1, coord_.pp, "tied");
  }
}

}  // namespace triax
