// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/model/parameter_slot.h"

namespace triax {

/// By logical name.
using TensorMap = std::map<std::string, at::Tensor>;

/// What a layout's ranks hold, put together under logical names.
struct GatheredTensors {
  /// In the logical shape, fp64.
  TensorMap tensors;
  /// Logical parameters of which two ranks hold different copies, with the
  /// largest difference and both ranks, as sentences.
  std::vector<std::string> drifted;
};

/// Which tensor of a slot is gathered; undefined ones count as zeros.
using SlotTensor = at::Tensor (*)(const ParameterSlot& slot);

at::Tensor weight_of(const ParameterSlot& slot);
at::Tensor gradient_of(const ParameterSlot& slot);

/// Collects a tensor of every slot on world rank 0, comparing every copy along
/// dp, tp and tied stages. Every rank must call; others get nothing back.
GatheredTensors gather_logical(const RunConfig& config,
                               DeviceMesh& mesh,
                               const std::vector<ParameterSlot*>& slots,
                               SlotTensor which);

}  // namespace triax
