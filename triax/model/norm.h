// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "triax/model/parameter_slot.h"

namespace triax {

/// Brings every row of x [.., H] to one scale. The statistics are in fp32, or
/// fp64 for fp64. The output has the input's dtype.
class Norm : public ParameterModule {
 public:
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// x / √(mean(x²) + eps) · w. Keeps x and one number a row for backward.
class RmsNorm : public Norm {
 public:
  RmsNorm(int64_t features, double eps);

  at::Tensor forward(const at::Tensor& x) override;
  std::vector<ParameterSlot*> own_slots() override { return {weight.get()}; }

  std::shared_ptr<ParameterSlot> weight;

 private:
  const double eps_;
};

/// (x − mean) / √(variance + eps) · w + b. Keeps x and two numbers a row.
class LayerNorm : public Norm {
 public:
  LayerNorm(int64_t features, double eps);

  at::Tensor forward(const at::Tensor& x) override;
  std::vector<ParameterSlot*> own_slots() override {
    return {weight.get(), bias.get()};
  }

  std::shared_ptr<ParameterSlot> weight;
  std::shared_ptr<ParameterSlot> bias;

 private:
  const double eps_;
};

}  // namespace triax
