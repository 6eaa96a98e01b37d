// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace triax {

/// A small module of modules of LibTorch, with something to learn.
class TrainedModule : public torch::nn::Module {
 public:
  /// Of the rows that only this rank has in this step.
  virtual at::Tensor loss(int rank, int step) = 0;
};

struct ModuleKind {
  std::string name;
  std::vector<std::string> units;  // patterns
  std::function<std::shared_ptr<TrainedModule>()> make;
};

/// Stacks, recurrent ones, attention, convolutions with batch norm, tied and
/// frozen parameters, several dtypes, parameters in lists, unused ones.
const std::vector<ModuleKind>& module_kinds();

/// Of that name, with weights that are the same whoever calls; fails loudly
/// where there is none.
std::shared_ptr<TrainedModule> make_module(const std::string& kind);
std::vector<std::string> unit_patterns(const std::string& kind);

}  // namespace triax
