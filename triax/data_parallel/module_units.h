// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace triax {

struct ModuleParameter {
  std::string path;  // "layers.3.attention.in_proj_weight"
  at::Tensor tensor;
};

/// Parameters of a module that are used together.
struct ModuleUnit {
  std::string name;  // the path of its submodule, or kRootUnit
  std::vector<ModuleParameter> parameters;
};

/// What no pattern matches.
inline constexpr const char* kRootUnit = "(root)";

/// The units of a module, in the order in which it registered them, the root
/// last. A submodule whose path fits a pattern (`*` stands for any characters,
/// dots too, and `?` for one) is a unit with all that is below it, except what
/// another pattern makes a unit again. A parameter that is registered twice
/// belongs to the unit where it comes first. Units without parameters are left
/// out. Throws Error for a pattern that fits no path.
std::vector<ModuleUnit> units_of_module(
    const torch::nn::Module& module, const std::vector<std::string>& patterns);

}  // namespace triax
