// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "triax/base/dtype.h"
#include "triax/base/piece.h"
#include "triax/model/transformer.h"

namespace triax {

/// Gives every parameter its shape and pieces, by name, before allocate().
/// Also sets what follows from them: which ids an embedding holds and which
/// head an attention begins with. A missing or unknown name is a TRIAX_CHECK.
void set_layouts(Transformer& model,
                 const std::vector<ParameterLayout>& layouts);

/// Gives every parameter storage and draws it in place. An element's value is
/// a function of the seed, its logical name and its place in the logical
/// parameter; padding is zero. Nothing of a parameter's size is held besides.
/// Only floating dtypes. After set_layouts().
void allocate(Transformer& model, DType dtype, uint64_t seed);

/// The same for the modules whose first parameter `is_meant`; the others' stay
/// without storage. Returns the slots that got it, in the model's order.
std::vector<ParameterSlot*> allocate_some(
    Transformer& model,
    DType dtype,
    uint64_t seed,
    const std::function<bool(const ParameterLayout&)>& is_meant);

}  // namespace triax
