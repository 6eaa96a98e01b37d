// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "triax/base/piece.h"

namespace triax {

/// A parameter before and after it has storage. Until allocate() only its
/// shape exists, so a layout may still make it smaller.
struct ParameterSlot {
  /// layout.name is the module path: "blocks.3.attention.qkv.weight".
  ParameterLayout layout;
  /// The registered parameter; undefined until allocate().
  at::Tensor tensor;
};

/// A slot without storage; `name` is the parameter's name in its module.
std::shared_ptr<ParameterSlot> make_slot(std::string name,
                                         std::vector<int64_t> shape,
                                         ParameterRole role);

/// A module with parameters of its own, which are registered when they get
/// storage.
class ParameterModule : public torch::nn::Module {
 public:
  /// This module's own slots, without those it shares with another module.
  virtual std::vector<ParameterSlot*> own_slots() = 0;
  /// Gives every own slot zeroed storage and registers it.
  void allocate_own_slots(at::ScalarType dtype);
};

/// The slots of `root` and of all modules below it, in registration order.
std::vector<ParameterSlot*> collect_slots(torch::nn::Module& root);

/// Puts each module's path in front of its slots' names. Called once, by the
/// constructor of the root.
void name_slots(torch::nn::Module& root);

}  // namespace triax
