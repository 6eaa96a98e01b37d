// SPDX-License-Identifier: Apache-2.0
#include "triax/model/allocate.h"

#include <map>
#include <string>

#include "triax/base/error.h"
#include "triax/model/initial_values.h"
#include "triax/model/scalar_type.h"

namespace triax {
namespace {

/// An embedding holds the rows its one piece names.
void place_embedding(Embedding& embedding) {
  const auto& pieces = embedding.weight->layout.pieces;
  embedding.num_valid = 0;
  if (!pieces.empty()) {
    const Range& rows = pieces.front().logical_range.front();
    embedding.first_row = rows.start;
    embedding.num_valid = rows.length;
  }
}

/// The first piece of qkv holds the query heads.
void place_attention(Attention& attention) {
  const auto& pieces = attention.qkv->weight->layout.pieces;
  TRIAX_CHECK(!pieces.empty(), "qkv without pieces");
  const Piece& queries = pieces.front();
  const Range& rows = queries.logical_range[queries.transposed ? 1 : 0];
  attention.first_head = rows.start / attention.heads().head_dim;
}

}  // namespace

void set_layouts(Transformer& model,
                 const std::vector<ParameterLayout>& layouts) {
  std::map<std::string, const ParameterLayout*> by_name;
  for (const ParameterLayout& layout : layouts) {
    by_name[layout.name] = &layout;
  }
  const auto slots = model.slots();
  TRIAX_CHECK(by_name.size() == layouts.size(), "a name stands twice");
  TRIAX_CHECK(slots.size() == layouts.size(),
              slots.size(),
              " parameters, ",
              layouts.size(),
              " layouts");
  for (ParameterSlot* slot : slots) {
    const auto found = by_name.find(slot->layout.name);
    TRIAX_CHECK(found != by_name.end(), "no layout for ", slot->layout.name);
    TRIAX_CHECK(!slot->tensor.defined(), slot->layout.name, " has storage");
    TRIAX_CHECK(found->second->shape.size() == slot->layout.shape.size(),
                slot->layout.name);
    slot->layout = *found->second;
  }
  model.apply([](torch::nn::Module& module) {
    if (auto* embedding = dynamic_cast<Embedding*>(&module)) {
      place_embedding(*embedding);
    } else if (auto* attention = dynamic_cast<Attention*>(&module)) {
      place_attention(*attention);
    }
  });
}

void allocate(Transformer& model, DType dtype, uint64_t seed) {
  allocate_some(
      model, dtype, seed, [](const ParameterLayout&) { return true; });
}

std::vector<ParameterSlot*> allocate_some(
    Transformer& model,
    DType dtype,
    uint64_t seed,
    const std::function<bool(const ParameterLayout&)>& is_meant) {
  TRIAX_CHECK(dtype != DType::kInt64, "parameters of ", dtype_name(dtype));
  const at::ScalarType type = to_scalar_type(dtype);
  std::vector<ParameterSlot*> meant;
  model.apply([&](torch::nn::Module& module) {
    auto* owner = dynamic_cast<ParameterModule*>(&module);
    if (owner == nullptr) {
      return;
    }
    const std::vector<ParameterSlot*> own = owner->own_slots();
    if (!own.empty() && is_meant(own.front()->layout)) {
      owner->allocate_own_slots(type);
      meant.insert(meant.end(), own.begin(), own.end());
    }
  });
  for (ParameterSlot* slot : meant) {
    for (const Piece& piece : slot->layout.pieces) {
      draw_piece(slot->tensor, piece, seed);
    }
  }
  return meant;
}

}  // namespace triax
