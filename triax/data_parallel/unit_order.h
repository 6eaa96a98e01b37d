// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "triax/comm/group.h"

namespace triax {

/// In which order the passes of a step use units of parameters. A pass is
/// expected to use them as the last one of its kind did, as long as it does.
class UnitOrder {
 public:
  void begin_pass(int kind);
  /// Uses of one unit that follow each other are one.
  void note_use(int unit);
  /// The next `ahead` units that this pass will use, without `units`; none
  /// where nothing was learnt, or it has been another one so far.
  std::vector<int> upcoming(std::span<const int> units, int ahead) const;
  /// The pass is over, and is what the next one of its kind is expected to be.
  /// Every rank of `shards` must call; throws Error with the first difference
  /// between their orders.
  void end_pass(Group& shards, const std::function<std::string(int)>& name_of);

 private:
  void compare(Group& shards,
               const std::function<std::string(int)>& name_of) const;

  std::map<int, std::vector<int>> learnt_;  // by kind of pass
  std::vector<int> seen_;                   // of this pass
  int kind_ = 0;
  size_t next_ = 0;  // in what was learnt
  bool is_as_learnt_ = false;
};

}  // namespace triax
