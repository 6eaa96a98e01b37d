// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/data_parallel/spilled_gradients.h"
#include "triax/data_parallel/spilled_parameters.h"
#include "triax/memory/spilled_arrays.h"
#include "triax/optim/optimizer.h"
#include "triax/plan/offload.h"
#include "triax/plan/parameter_units.h"

namespace triax {

/// The states of a rank's shard that lie on file (memory.offload = "nvme"): one
/// file for each rank, one array for each state.
class OffloadedShard {
 public:
  /// Makes the file. `rank_text` names the rank in messages. Throws Error as
  /// SpillFile does.
  OffloadedShard(const RunConfig& config,
                 const FlatLayout& layout,
                 const std::string& rank_text);

  /// For an optimizer of tensors of these slices.
  OffloadedOptimizer optimizer(const std::vector<ShardSlice>& slices);

  /// For the gradients; without arrays where they lie in memory.
  GradientFile gradients();

  /// For the parameters, by bucket of the units' layout, whose trained buckets
  /// are those of the shard's. Frozen ones get a file of their own.
  std::vector<PartPlace> parameter_places(
      const UnitLayout& units,
      const std::function<bool(int parameter)>& is_trained);

  bool has_gradients() const { return places_.gradient >= 0; }
  bool has_parameters() const { return places_.parameter >= 0; }
  /// On file, and moved, in all.
  int64_t nbytes() const;
  IoBytes moved() const;
  const SpilledArrays& arrays() const { return *arrays_; }

 private:
  const std::string dir_;
  const SpillFileOptions file_;
  const FlatLayout flat_;
  const SpillLayout spill_;
  OffloadedOptimizer places_;
  std::unique_ptr<SpilledArrays> arrays_;
  std::unique_ptr<SpilledArrays> frozen_;  // parameters, where there are any
};

/// nullptr where nothing of the shard lies on file.
std::unique_ptr<OffloadedShard> make_offloaded_shard(
    const RunConfig& config,
    const FlatLayout& layout,
    const std::string& rank_text);

}  // namespace triax
