// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>

#include "triax/model/linear.h"

namespace triax {

enum class Activation {
  kSwiGlu,    // silu(gate) · up
  kGeluTanh,  // gelu by tanh
};

struct FeedForwardOptions {
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  Activation activation = Activation::kSwiGlu;
  bool has_bias = false;
};

/// [B, S, H] → [B, S, H]. With kSwiGlu the first half of the rows of `up` is
/// the gate.
class FeedForward : public torch::nn::Module {
 public:
  explicit FeedForward(const FeedForwardOptions& options);

  /// `redo` gives x again in backward.
  at::Tensor forward(const at::Tensor& x, const Redo& redo = {});

  /// Backward computes the activation function again.
  bool redoes_activation = false;

  std::shared_ptr<Linear> up;
  std::shared_ptr<Linear> down;

 private:
  at::Tensor activate(const at::Tensor& hidden) const;

  const Activation activation_;
};

/// silu(gate) · up of gate_up [.., 2 F] → [.., F]. Keeps gate_up for backward.
at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace triax
