// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/mesh/device_mesh.h"
#include "triax/model/parameter_slot.h"

namespace triax {

/// By logical name.
using TensorMap = std::map<std::string, at::Tensor>;

/// Two ranks hold different copies of elements of one logical parameter.
struct Drift {
  std::string name;
  int first_rank = 0;
  int second_rank = 0;
  double difference = 0;  // the largest
};

/// "NAME differs between ranks 0 and 1 by 0.25".
std::string to_text(const Drift& drift);

/// What a layout's ranks hold, put together under logical names.
struct GatheredTensors {
  /// In the logical shape and master_dtype(): what is narrower is widened.
  TensorMap tensors;
  /// The first drift of each logical parameter that has one.
  std::vector<Drift> drifted;
};

/// Which tensor of a slot is gathered; undefined ones count as zeros. Not
/// called on all ranks at once.
using SlotTensor = std::function<at::Tensor(const ParameterSlot& slot)>;

at::Tensor weight_of(const ParameterSlot& slot);
at::Tensor gradient_of(const ParameterSlot& slot);

/// Collects a tensor of every slot on world rank 0, comparing every copy along
/// dp, tp and tied stages. Every rank must call; others get nothing back.
/// Weights must be whole (Trainer::with_whole_weights()).
GatheredTensors gather_logical(const RunConfig& config,
                               DeviceMesh& mesh,
                               const std::vector<ParameterSlot*>& slots,
                               const SlotTensor& which);

}  // namespace triax
