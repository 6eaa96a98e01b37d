// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "triax/model/parameter_slot.h"

namespace triax {

/// What a module does to a tensor on its way in or out; identity when empty.
/// Must be differentiable where its result is.
using Boundary = std::function<at::Tensor(const at::Tensor&)>;

/// How backward gets a product's input again from something that is kept
/// anyway, instead of keeping the input too. Empty: the input is kept. What
/// `call` refers to must outlive the graph.
struct Redo {
  at::Tensor kept;
  std::function<at::Tensor(const at::Tensor& kept)> call;
};

struct LinearOptions {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool has_bias = false;
  ParameterRole role = ParameterRole::kMatrix;
};

/// y = x Wᵀ (+ b): x [.., in], W [out, in], b [out], y [.., out]. Keeps x for
/// backward, in the dtype of the product. Gradients of W and b come in
/// statistics_dtype().
class Linear : public ParameterModule {
 public:
  /// Told the input [.., in] and the gradient of the product [.., out].
  using OnWeightGradient = std::function<void(const at::Tensor& input,
                                              const at::Tensor& grad_output)>;

  explicit Linear(const LinearOptions& options);
  /// Without a bias, with another module's weight, which stays that module's.
  explicit Linear(std::shared_ptr<ParameterSlot> shared_weight);

  /// `redo` must give `input`, in the same bits.
  at::Tensor forward(const at::Tensor& input, const Redo& redo = {});
  std::vector<ParameterSlot*> own_slots() override;

  int64_t out_features() const { return weight->layout.shape[0]; }
  int64_t in_features() const { return weight->layout.shape[1]; }

  Boundary on_input;
  /// Backward runs on_input again instead of keeping what it gave.
  bool redoes_on_input = false;
  /// The bias is added after it: parts of a product are summed first.
  Boundary on_output;
  /// When set, backward calls it instead of computing the weight's gradient;
  /// who set it then adds weight_gradient() to the weight's grad later.
  OnWeightGradient on_weight_gradient;
  /// The product's dtype, and the output's; unset: the weight's.
  std::optional<at::ScalarType> matmul_dtype;

  std::shared_ptr<ParameterSlot> weight;
  std::shared_ptr<ParameterSlot> bias;  // null without bias

 private:
  /// `redo`, or its like for a kept input, with on_input behind it.
  Redo with_on_input(const at::Tensor& input, const Redo& redo) const;

  const bool owns_weight_;
};

/// grad_outputᵀ input over all leading dims: [out, in], in `dtype`. LibTorch's
/// products of 16-bit operands add up in fp32 and round the result once to the
/// operands' type; a product that gives fp32 takes four times as long on a CPU.
at::Tensor weight_gradient(const at::Tensor& input,
                           const at::Tensor& grad_output,
                           at::ScalarType dtype);

}  // namespace triax
