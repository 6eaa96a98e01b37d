// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triax/config/fields.h"

namespace triax {

// The fields whose values have a shape of their own.

/// data.validation: a share of the tokens, or a path.
SpecialMember validation_member();

/// parallel.stages: "auto", or a list of layer counts.
SpecialMember stages_member();

/// optimizer.group: tables with pattern and lr, weight_decay or both.
SpecialMember group_member();

}  // namespace triax
