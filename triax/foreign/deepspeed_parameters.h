// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

/// A class that DeepSpeed calls with the keys of optimizer.params or
/// scheduler.params as arguments.
struct ParameterRow {
  std::string_view name;        // "adam.fused", "WarmupLR"
  std::string_view class_name;  // for people: "FusedAdam"
  std::string_view parameters;  // joined by '|', as in KeyRow::choices
  std::string_view needed = {};
  /// It takes what it knows out of the keys and passes over the rest.
  bool ignores_unknown = false;
};

/// What decides which class an optimizer.type stands for.
struct OptimizerChoice {
  std::string type;
  bool is_offloaded = false;   // its states are in the host's memory
  bool is_torch_adam = false;  // optimizer.params.torch_adam
  bool is_adam_w = true;       // optimizer.params.adam_w_mode
};

/// nullptr: DeepSpeed 0.19.8, those before and torch.optim have none.
const ParameterRow* find_optimizer_parameters(const OptimizerChoice& choice);

/// Of DeepSpeed or torch.optim.lr_scheduler; nullptr: neither has it.
const ParameterRow* find_schedule_parameters(std::string_view type);

/// All rows: tests/foreign/deepspeed_parameters.py lists them from the
/// packages themselves.
std::span<const ParameterRow> optimizer_parameter_rows();
std::span<const ParameterRow> schedule_parameter_rows();

/// DEEPSPEED_OPTIMIZERS of 0.19.8, lowered; those that 0.19.8 dropped; the
/// classes of torch.optim and of its lr_scheduler (PyTorch 2.13).
const std::vector<std::string_view>& deepspeed_optimizers();
const std::vector<std::string_view>& old_deepspeed_optimizers();
const std::vector<std::string_view>& torch_optimizers();
const std::vector<std::string_view>& schedule_names();

}  // namespace triax
