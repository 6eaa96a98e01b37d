// SPDX-License-Identifier: Apache-2.0
#include "triax/train/gather.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <set>

#include "triax/base/error.h"
#include "triax/mesh/tensor_group.h"
#include "triax/model/piece_part.h"
#include "triax/plan/sharding.h"
#include "triax/plan/stage_split.h"

namespace triax {
namespace {

/// Puts stored tensors together; elements nobody has placed yet are NaN.
class Assembler {
 public:
  void place(const at::Tensor& stored,
             const ParameterLayout& layout,
             int world_rank) {
    for (const Piece& piece : layout.pieces) {
      place(stored_part(stored, piece), piece, world_rank);
    }
  }

  GatheredTensors take() {
    for (const auto& [name, tensor] : result_.tensors) {
      TRIAX_CHECK(placed_[name] == tensor.numel(), name, " is not whole");
    }
    return std::move(result_);
  }

 private:
  void place(const at::Tensor& part, const Piece& piece, int world_rank) {
    at::Tensor& logical = result_.tensors[piece.logical_name];
    if (!logical.defined()) {
      logical = at::full(piece.logical_shape,
                         std::numeric_limits<double>::quiet_NaN(),
                         part.options());
    }
    const std::vector<int64_t> key = start_of(piece);
    const auto [owner, is_new] =
        owners_.try_emplace({piece.logical_name, key}, world_rank);
    const at::Tensor target = logical_part(logical, piece);
    if (is_new) {
      target.copy_(part);
      placed_[piece.logical_name] += piece.numel();
      return;
    }
    compare(target, part, piece.logical_name, owner->second, world_rank);
  }

  static std::vector<int64_t> start_of(const Piece& piece) {
    std::vector<int64_t> start;
    for (const Range& range : piece.logical_range) {
      start.push_back(range.start);
    }
    return start;
  }

  void compare(const at::Tensor& first,
               const at::Tensor& second,
               const std::string& name,
               int first_rank,
               int second_rank) {
    if (first.equal(second) || !drifted_.insert(name).second) {
      return;
    }
    const at::Tensor difference =
        (first.to(at::kDouble) - second.to(at::kDouble)).abs().max();
    result_.drifted.push_back(
        {name, first_rank, second_rank, difference.item<double>()});
  }

  GatheredTensors result_;
  std::set<std::string> drifted_;
  std::map<std::string, int64_t> placed_;
  std::map<std::pair<std::string, std::vector<int64_t>>, int> owners_;
};

std::vector<ParameterLayout> sorted_layouts(const RunConfig& config,
                                            const ModelPart& part,
                                            int tp_rank) {
  std::vector<ParameterLayout> layouts =
      parameter_layouts(config.model, part, config.parallel.tp, tp_rank);
  std::sort(layouts.begin(), layouts.end(), [](const auto& a, const auto& b) {
    return a.name < b.name;
  });
  return layouts;
}

at::Tensor stored(const ParameterSlot& slot,
                  at::ScalarType dtype,
                  const SlotTensor& which) {
  const at::Tensor tensor = which(slot);
  return tensor.defined() ? tensor.detach().to(dtype).contiguous()
                          : at::zeros(slot.layout.shape, dtype);
}

}  // namespace

std::string to_text(const Drift& drift) {
  return detail::join(drift.name,
                      " differs between ranks ",
                      drift.first_rank,
                      " and ",
                      drift.second_rank,
                      " by ",
                      drift.difference);
}

at::Tensor weight_of(const ParameterSlot& slot) {
  return slot.tensor;
}
at::Tensor gradient_of(const ParameterSlot& slot) {
  return slot.tensor.grad();
}

GatheredTensors gather_logical(const RunConfig& config,
                               DeviceMesh& mesh,
                               const std::vector<ParameterSlot*>& slots,
                               const SlotTensor& which) {
  std::map<std::string, ParameterSlot*> mine;
  for (ParameterSlot* slot : slots) {
    mine[slot->layout.name] = slot;
  }
  Group& world = mesh.world();
  const std::vector<ModelPart> parts =
      split_stages(config.model, config.parallel);
  const at::ScalarType dtype =
      to_scalar_type(master_dtype(config.training.precision));
  Assembler assembler;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Coord coord = mesh.dims().coord(rank);
    for (const auto& layout :
         sorted_layouts(config, parts[coord.pp], coord.tp)) {
      if (rank == world.rank()) {
        const at::Tensor tensor = stored(*mine.at(layout.name), dtype, which);
        if (rank == 0) {
          assembler.place(tensor, layout, rank);
        } else {
          world.send(as_buffer(tensor), 0);
        }
      } else if (world.rank() == 0) {
        const at::Tensor tensor = at::empty(layout.shape, dtype);
        world.recv(as_buffer(tensor), rank);
        assembler.place(tensor, layout, rank);
      }
    }
  }
  return world.rank() == 0 ? assembler.take() : GatheredTensors{};
}

}  // namespace triax
