// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"

namespace triax {

/// A parameter as Hugging Face's transformers names, shapes and draws it.
struct LogicalParameter {
  std::string name;
  std::vector<int64_t> shape;
  ParameterRole role = ParameterRole::kMatrix;
  InitialValue initial;
  int layer = -1;  // -1: none

  int64_t numel() const;
};

/// All parameters of a model in the order of the forward pass. Linear weights
/// are [out, in], GPT-2's Conv1D weights [in, out]. A tied head is not listed:
/// it is the embedding. Weights are drawn from normal(0, initializer_range),
/// GPT-2's c_proj from normal(0, initializer_range / sqrt(2 n_layer)); norms
/// begin at 1 and biases at 0 (transformers' _init_weights).
/// `model` must be resolved: its derived fields are not 0.
std::vector<LogicalParameter> logical_parameters(const ModelConfig& model);

/// The embedding's logical name in this family, which a tied head shares.
std::string embedding_name(ModelFamily family);

}  // namespace triax
