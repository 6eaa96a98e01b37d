// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triax/comm/operation.h"

namespace triax {

/// out[i] = inputs[0][i] op inputs[1][i] op …, in this order, for i < numel;
/// also to `copy` where that is not null. `out` may be one of the inputs.
/// 16-bit types are computed in fp32 and rounded once, to nearest even. An
/// average is the sum divided once (int64: towards zero). NaN goes through
/// every op, max too. The bits depend neither on numel nor on alignment (of a
/// sum of several NaN, only that it is one).
void reduce(const void* const* inputs,
            int num_inputs,
            int64_t numel,
            DType dtype,
            ReduceOp op,
            void* out,
            void* copy = nullptr);

}  // namespace triax
