// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "triax/model/parameter_slot.h"

namespace triax {

/// By logical name.
using LogicalTensors = std::map<std::string, at::Tensor>;

/// The logical parameters of which `slots` hold the pieces. Elements that no
/// piece covers are NaN; elements that several cover must be equal in bits,
/// else std::runtime_error.
LogicalTensors assemble_values(const std::vector<ParameterSlot*>& slots);

/// The same for the gradients, except that those of several slots (a tied
/// embedding and head) are added. `slots` are one rank's.
LogicalTensors assemble_gradients(const std::vector<ParameterSlot*>& slots);

/// Writes every piece of `slots` from the logical parameters.
void load_values(const std::vector<ParameterSlot*>& slots,
                 const LogicalTensors& values);

}  // namespace triax
