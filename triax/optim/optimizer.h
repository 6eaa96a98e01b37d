// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "triax/config/run_config.h"
#include "triax/memory/spilled_arrays.h"

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
  int64_t start = 0;  // of the parameter's elements, the tensor's first one
};

/// Which arrays on file hold an optimizer's states, and where in them its
/// tensors' elements lie. Gradients and parameters may lie there too: those of
/// OptimizedTensor are then undefined.
struct OffloadedOptimizer {
  SpilledArrays* file = nullptr;  // must outlive the optimizer
  /// By tensor: its elements in the arrays, in rising order, from multiples of
  /// 64 on.
  std::vector<Range> places;
  /// Arrays; -1: none, or in memory.
  int master = -1;
  std::vector<int> states = {};  // of update(), by state_names()
  int gradient = -1;
  int parameter = -1;
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
  /// parameters' values, all else zeroed. With `offloaded` it lies on file, and
  /// step() takes one window of it after the other; the bits are the same.
  Optimizer(std::vector<OptimizedTensor> tensors,
            std::vector<std::string> state_names,
            const OffloadedOptimizer* offloaded);
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
  /// there are any, come first. Only where it lies in memory.
  std::vector<OptimizerState> states() const;
  /// Calls `visit` for all of the state, wherever it lies, each element once:
  /// what is on file comes in parts, the parts of one place together. Writes
  /// into the views are kept where `is_written`.
  void visit_states(bool is_written,
                    const std::function<void(const OptimizerState&)>& visit);
  /// Bytes of all states, wherever they lie.
  int64_t state_bytes() const;
  bool is_offloaded() const { return offloaded_.file != nullptr; }
  /// What is updated of tensor `index`: its master, or the parameter itself
  /// where that has the gradient's dtype. Only where it lies in memory.
  const at::Tensor& master(int64_t index) const { return masters_[index]; }

  /// The states beside each master: "exp_avg", …
  const std::vector<std::string>& state_names() const { return state_names_; }

  const std::vector<OptimizedTensor>& tensors() const { return tensors_; }

 protected:
  /// Tensors of one dtype, lr_scale and weight decay, updated by one call, with
  /// the states beside each by state_names().
  struct Batch {
    double lr_scale = 1.0;
    double weight_decay = 0.0;
    std::vector<at::Tensor> masters;
    std::vector<at::Tensor> gradients;
    std::vector<std::vector<at::Tensor>> states;
    /// The parameters that become the masters, rounded; none where the masters
    /// are the parameters.
    std::vector<at::Tensor> rounded;
  };
  /// num_steps() already counts this update.
  virtual void update(const Batch& batch, double lr) = 0;

 private:
  /// One tensor or a part of it.
  struct Part {
    at::Tensor master;
    at::Tensor gradient;
    std::vector<at::Tensor> states;
    at::Tensor parameter;
  };

  void make_in_memory();
  void make_on_file();
  void add_to(std::vector<Batch>& batches, size_t index, Part part) const;
  void apply(const Batch& batch, double lr, double gradient_scale);
  void step_on_file(double lr, double gradient_scale);
  bool has_masters_on_file() const { return offloaded_.master >= 0; }
  /// Calls `body` with each tensor's elements in the window.
  void for_each_part(
      const ArrayWindow& window,
      const std::function<void(size_t index, const Range& elements)>& body);
  Part part_of(const ArrayWindow& window,
               size_t index,
               const Range& elements) const;
  WindowPass pass() const;

  const std::vector<OptimizedTensor> tensors_;
  const std::vector<std::string> state_names_;
  const OffloadedOptimizer offloaded_;
  // In memory alone, by tensor.
  std::vector<at::Tensor> masters_;
  std::vector<std::vector<at::Tensor>> states_;  // by name
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
  AdamW(std::vector<OptimizedTensor> tensors,
        const Options& options,
        const OffloadedOptimizer* offloaded = nullptr);

 private:
  void update(const Batch& batch, double lr) override;

  const Options options_;
};

/// SGD with momentum and coupled decay (PyTorch's form) by _fused_sgd_:
///   g += wd p;  b = momentum b + g;  p -= lr b
/// State: one element per parameter element, none without momentum, beside the
/// master.
class Sgd : public Optimizer {
 public:
  Sgd(std::vector<OptimizedTensor> tensors,
      double momentum,
      const OffloadedOptimizer* offloaded = nullptr);

 private:
  void update(const Batch& batch, double lr) override;

  const double momentum_;
};

/// Optimizer::state_names() of what make_optimizer() makes; throws as that.
std::vector<std::string> optimizer_state_names(const OptimizerConfig& config);

/// By config.name; throws Error for a name or a value that is none.
std::unique_ptr<Optimizer> make_optimizer(
    const OptimizerConfig& config,
    std::vector<OptimizedTensor> tensors,
    const OffloadedOptimizer* offloaded = nullptr);

}  // namespace triax
