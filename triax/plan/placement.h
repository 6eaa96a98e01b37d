// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triax {

/// How a parameter lies along one axis: whole on every rank, or split along
/// one dim of the stored parameter.
struct Placement {
  enum class Kind { kReplicate, kShard };

  Kind kind = Kind::kReplicate;
  int dim = 0;  // of a shard

  bool operator==(const Placement&) const = default;
};

constexpr Placement replicate() {
  return {};
}
constexpr Placement shard(int dim) {
  return {Placement::Kind::kShard, dim};
}

}  // namespace triax
