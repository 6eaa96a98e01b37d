// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>

#include "triax/comm/group.h"
#include "triax/plan/parallel_dims.h"

namespace triax {

/// Where a rank stands among all ranks, and its group along each axis.
/// Passed to what needs it, never fetched from a global.
class DeviceMesh {
 public:
  /// Every rank of `world` must call: the axes' groups are split off it.
  /// world->size() must equal dims.world_size().
  DeviceMesh(const ParallelDims& dims, std::unique_ptr<Group> world);

  const ParallelDims& dims() const { return dims_; }
  const Coord& coord() const { return coord_; }
  int rank() const { return world_->rank(); }
  Group& world() { return *world_; }
  /// The ranks that differ from this one along `axis` only.
  Group& group(Axis axis) { return *groups_[static_cast<size_t>(axis)]; }
  /// The first and the last stage of this rank's pipeline, for weights that
  /// both hold; nullptr on the stages between and where there is one stage.
  Group* tied_stages() { return tied_stages_.get(); }

  bool is_first_stage() const { return coord_.pp == 0; }
  bool is_last_stage() const { return coord_.pp == dims_.pp - 1; }

 private:
  const ParallelDims dims_;
  std::unique_ptr<Group> world_;
  const Coord coord_;
  std::array<std::unique_ptr<Group>, 3> groups_;
  std::unique_ptr<Group> tied_stages_;
};

}  // namespace triax
