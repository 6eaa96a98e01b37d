// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// What one update changes: a parameter, or a flat slice of a buffer with
/// several parameters of equal settings, and the gradient beside it.
///
/// Both are contiguous and of equal numel (0 is legal: a rank may own nothing).
/// The gradient is fp32 or fp64, the parameter of the same dtype; or it is bf16
/// or fp16 beside an fp32 gradient, and the optimizer keeps its master, in the
/// gradient's dtype. Bits: ATen's fused kernels treat the last
/// numel % (64 bytes / element) elements by scalar code, which rounds the
/// second moment otherwise. Slices that start and end at multiples of 64
/// elements from the buffer's start therefore get the bits of the whole, and
/// others may not: include a buffer's padding. Padding stays 0 (zero weight,
/// zero gradient), with AdamW as long as eps is above 0 in the tensor's type.
struct OptimizedTensor {
  at::Tensor parameter;
  at::Tensor gradient;
  double lr_scale = 1.0;  // times the lr of step()
  double weight_decay = 0.0;
};

/// One tensor of an optimizer's state, element by element beside `parameter`
/// number `index` of the list the optimizer was made of.
struct OptimizerState {
  std::string name;  // "master", "exp_avg", "exp_avg_sq", "momentum_buffer"
  int64_t index = 0;
  at::Tensor tensor;
};

/// Updates parameters in place from gradients that the caller has reduced. One
/// rank's view; no communication. The whole state is states() and num_steps().
///
/// Where a parameter is narrower than its gradient (Micikevicius et al. 2018,
/// "Mixed Precision Training", section 3.1) the update is made to its master,
/// and the parameter is the master, rounded once to nearest even: an update
/// below the parameter's own rounding is not lost but adds up.
class Optimizer {
 public:
  /// The tensors are shared with the caller and must keep their storage.
  /// State is allocated here, on the parameters' device: masters with the
  /// parameters' values, all else zeroed.
  explicit Optimizer(std::vector<OptimizedTensor> tensors);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with the gradients times `gradient_scale` (the clip factor).
  /// A scale other than 1 is multiplied into the gradients in place; it is not
  /// given to the fused kernels, whose grad_scale divides, and is fp32 for
  /// fp64 gradients too.
  void step(double lr, double gradient_scale = 1.0);

  /// Finished updates; what bias correction counts.
  int64_t num_steps() const { return num_steps_; }
  /// For resume.
  void set_num_steps(int64_t num_steps);

  /// Writable views of the state, by name and then by index; masters, where
  /// there are any, come first.
  std::vector<OptimizerState> states() const;
  /// Bytes of all states.
  int64_t state_bytes() const;
  /// What is updated of tensor `index`: its master, or the parameter itself
  /// where that has the gradient's dtype.
  const at::Tensor& master(int64_t index) const { return masters_[index]; }

  const std::vector<OptimizedTensor>& tensors() const { return tensors_; }

 protected:
  /// Tensors of one dtype, lr_scale and weight decay, updated by one call.
  struct Batch {
    double lr_scale = 1.0;
    double weight_decay = 0.0;
    std::vector<int64_t> indices;
    std::vector<at::Tensor> masters;
    std::vector<at::Tensor> gradients;
  };
  /// num_steps() already counts this update.
  virtual void update(const Batch& batch, double lr) = 0;
  /// The states that update() keeps.
  virtual std::vector<OptimizerState> own_states() const = 0;
  /// Zeros beside each master.
  std::vector<at::Tensor> make_state() const;

 private:
  bool has_master(int64_t index) const;
  void round_masters(const Batch& batch);

  const std::vector<OptimizedTensor> tensors_;
  std::vector<at::Tensor> masters_;
  std::vector<Batch> batches_;
  int64_t num_steps_ = 0;
};

/// AdamW (Loshchilov & Hutter 2019, PyTorch's form) by ATen's _fused_adamw_:
///   p *= 1 - lr wd;  m += (1 - b1) (g - m);  v = b2 v + (1 - b2) g²;
///   p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
/// State: two elements per parameter element, beside the master.
class AdamW : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
  };
  AdamW(std::vector<OptimizedTensor> tensors, const Options& options);

 private:
  void update(const Batch& batch, double lr) override;
  std::vector<OptimizerState> own_states() const override;

  const Options options_;
  const std::vector<at::Tensor> exp_avgs_;
  const std::vector<at::Tensor> exp_avg_sqs_;
};

/// SGD with momentum and coupled decay (PyTorch's form) by _fused_sgd_:
///   g += wd p;  b = momentum b + g;  p -= lr b
/// State: one element per parameter element, none without momentum, beside the
/// master.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<OptimizedTensor> tensors, double momentum);

 private:
  void update(const Batch& batch, double lr) override;
  std::vector<OptimizerState> own_states() const override;

  const double momentum_;
  const std::vector<at::Tensor> momentum_buffers_;
};

/// By config.name; throws Error for a name or a value that is none.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          std::vector<OptimizedTensor> tensors);

}  // namespace triax
