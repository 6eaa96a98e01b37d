// SPDX-License-Identifier: Apache-2.0
#include "triax/train/rank_model.h"

#include <ATen/core/grad_mode.h>

#include "triax/base/error.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"
#include "triax/model/allocate.h"
#include "triax/plan/parameter_units.h"
#include "triax/plan/stage_split.h"
#include "triax/plan/zero_stages.h"
#include "triax/tensor_parallel/apply.h"

namespace triax {
namespace {

void swap_contents(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  const at::Tensor copy = a.detach().clone();
  a.copy_(b);
  b.copy_(copy);
}

std::string block_prefix(int layer) {
  return "blocks." + std::to_string(layer) + ".";
}

ParameterSlot* find_slot(const RankModel& rank_model, const std::string& name) {
  for (ParameterSlot* slot : rank_model.slots) {
    if (slot->layout.name == name) {
      return slot;
    }
  }
  return nullptr;
}

void swap_layers(const RankModel& rank_model) {
  const std::string first = block_prefix(rank_model.part.first_layer);
  const std::string second = block_prefix(rank_model.part.first_layer + 1);
  for (ParameterSlot* slot : rank_model.slots) {
    if (slot->layout.name.starts_with(first)) {
      const std::string rest = slot->layout.name.substr(first.size());
      swap_contents(slot->tensor, find_slot(rank_model, second + rest)->tensor);
    }
  }
}

void swap_heads(const RankModel& rank_model, int64_t head_dim) {
  const std::string name =
      block_prefix(rank_model.part.first_layer) + "attention.qkv.weight";
  const at::Tensor weight = find_slot(rank_model, name)->tensor;
  swap_contents(weight.narrow(0, 0, head_dim),
                weight.narrow(0, head_dim, head_dim));
}

/// Names the layers of a stage as if they were the first ones, which is what
/// drawing every stage from one seed amounts to. Returns the true layouts.
std::vector<ParameterLayout> rename_as_first(const RankModel& rank_model) {
  std::vector<ParameterLayout> kept;
  for (ParameterSlot* slot : rank_model.slots) {
    kept.push_back(slot->layout);
    for (int i = 0; i < rank_model.part.num_layers; ++i) {
      const std::string from =
          "." + std::to_string(rank_model.part.first_layer + i) + ".";
      for (Piece& piece : slot->layout.pieces) {
        const size_t at = piece.logical_name.find(from);
        if (slot->layout.name.starts_with("blocks" + from) &&
            at != std::string::npos) {
          piece.logical_name.replace(
              at, from.size(), "." + std::to_string(i) + ".");
        }
      }
    }
  }
  return kept;
}

void break_boundaries(const DeviceMesh& mesh,
                      RankModel& rank_model,
                      Break broken) {
  if (broken == Break::kFirstSequencePart) {
    rank_model.model->apply([](torch::nn::Module& module) {
      if (auto* dropout = dynamic_cast<Dropout*>(&module)) {
        dropout->sequence_part = 0;
      }
    });
  }
  if (!mesh.is_first_stage()) {
    return;
  }
  Block& block = *rank_model.model->blocks[0];
  if (broken == Break::kSkipRowSum) {
    block.feed_forward->down->on_output = {};
  }
  if (broken == Break::kSkipColumnGradient) {
    block.attention->qkv->on_input = {};
  }
}

void break_loss(const DeviceMesh& mesh, LossOptions& loss, Break broken) {
  if (broken == Break::kShiftVocabulary) {
    loss.first_vocab += 1;
  }
  if (broken == Break::kCountPadding) {
    loss.vocab_size = loss.num_columns * mesh.dims().tp;
    loss.num_valid = loss.num_columns;
  }
}

}  // namespace

RankModel place_rank_model(const RunConfig& config,
                           DeviceMesh& mesh,
                           Break broken) {
  const MemoryScope memory(MemoryCategory::kParameters);
  RankModel rank_model;
  rank_model.part =
      split_stages(config.model, config.parallel)[mesh.coord().pp];
  rank_model.model =
      std::make_shared<Transformer>(config.model, rank_model.part);
  Group& tp = mesh.group(Axis::kTp);
  apply_tensor_parallel(*rank_model.model,
                        config.model,
                        rank_model.part,
                        tp,
                        config.parallel.sequence_parallel);
  rank_model.model->set_recompute(config.memory);
  rank_model.loss = vocab_parallel_loss(config, tp);
  rank_model.slots = rank_model.model->slots();
  break_boundaries(mesh, rank_model, broken);
  break_loss(mesh, rank_model.loss, broken);
  if (config.training.precision == Precision::kBf16Autocast) {
    set_matmul_dtype(*rank_model.model, at::kBFloat16);
  }
  return rank_model;
}

void draw_parameters(
    const RunConfig& config,
    RankModel& rank_model,
    Break broken,
    const std::function<void(const std::vector<ParameterSlot*>& slots)>&
        take_over) {
  const DType dtype = parameter_dtype(config.training.precision);
  const auto seed = static_cast<uint64_t>(config.training.seed);
  std::vector<ParameterLayout> kept;
  if (broken == Break::kSameSeedOnStages) {
    kept = rename_as_first(rank_model);
  }
  std::vector<std::string> units;
  for (const ParameterSlot* slot : rank_model.slots) {
    const std::string unit = splits_parameters(config.parallel)
                                 ? unit_of_parameter(slot->layout.name)
                                 : "";
    if (units.empty() || units.back() != unit) {
      units.push_back(unit);
    }
  }
  for (const std::string& unit : units) {
    const MemoryScope memory(MemoryCategory::kParameters);
    take_over(allocate_some(
        *rank_model.model, dtype, seed, [&](const ParameterLayout& layout) {
          return unit.empty() || unit_of_parameter(layout.name) == unit;
        }));
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    rank_model.slots[i]->layout = kept[i];
  }
}

RankModel build_rank_model(const RunConfig& config, DeviceMesh& mesh) {
  RankModel rank_model = place_rank_model(config, mesh);
  const MemoryScope memory(MemoryCategory::kParameters);
  allocate(*rank_model.model,
           parameter_dtype(config.training.precision),
           static_cast<uint64_t>(config.training.seed));
  return rank_model;
}

void break_weights(const RunConfig& config,
                   const DeviceMesh& mesh,
                   const RankModel& rank_model,
                   Break broken) {
  const Coord& coord = mesh.coord();
  // A list of stages may give the first one a single layer.
  if (broken == Break::kSwapLayers && rank_model.part.num_layers > 1) {
    swap_layers(rank_model);
  }
  if (broken == Break::kSwapHeads && mesh.is_first_stage() && coord.tp == 0) {
    swap_heads(rank_model, config.model.head_dim);
  }
}

}  // namespace triax
