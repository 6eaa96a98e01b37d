// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "triax/base/error.h"

namespace triax {
namespace {

bool is_narrow(at::ScalarType dtype) {
  return dtype == at::kBFloat16 || dtype == at::kHalf;
}

void check_tensor(const OptimizedTensor& tensor) {
  const at::Tensor& parameter = tensor.parameter;
  const at::Tensor& gradient = tensor.gradient;
  TRIAX_CHECK(parameter.defined() && gradient.defined(), "undefined tensor");
  TRIAX_CHECK(gradient.scalar_type() == at::kFloat ||
                  gradient.scalar_type() == at::kDouble,
              "a gradient of ",
              gradient.scalar_type());
  TRIAX_CHECK(parameter.scalar_type() == gradient.scalar_type() ||
                  (is_narrow(parameter.scalar_type()) &&
                   gradient.scalar_type() == at::kFloat),
              "a parameter of ",
              parameter.scalar_type(),
              " and a gradient of ",
              gradient.scalar_type());
  TRIAX_CHECK(parameter.numel() == gradient.numel(),
              parameter.numel(),
              " and ",
              gradient.numel());
  TRIAX_CHECK(parameter.is_contiguous() && gradient.is_contiguous(),
              "strided tensor");
}

bool is_share(double value) {
  return value >= 0.0 && value < 1.0;
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedTensor> tensors,
                     std::vector<std::string> state_names,
                     const OffloadedOptimizer* offloaded)
    : tensors_(std::move(tensors)),
      state_names_(std::move(state_names)),
      offloaded_(offloaded == nullptr ? OffloadedOptimizer{} : *offloaded) {
  const at::NoGradGuard no_grad;
  if (is_offloaded()) {
    make_on_file();
  } else {
    make_in_memory();
  }
}

void Optimizer::make_in_memory() {
  states_.resize(state_names_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const OptimizedTensor& tensor = tensors_[i];
    check_tensor(tensor);
    const at::Tensor parameter = tensor.parameter.detach();
    // The parameter itself where it has that dtype.
    masters_.push_back(parameter.to(tensor.gradient.scalar_type()));
    Part part = {.master = masters_.back(),
                 .gradient = tensor.gradient.detach(),
                 .states = {},
                 .parameter = parameter};
    for (std::vector<at::Tensor>& state : states_) {
      state.push_back(at::zeros_like(masters_.back()));
      part.states.push_back(state.back());
    }
    if (parameter.numel() > 0) {
      add_to(batches_, i, std::move(part));
    }
  }
}

void Optimizer::add_to(std::vector<Batch>& batches,
                       size_t index,
                       Part part) const {
  const OptimizedTensor& tensor = tensors_[index];
  const bool is_rounded =
      part.parameter.scalar_type() != part.master.scalar_type();
  auto batch =
      std::find_if(batches.begin(), batches.end(), [&](const Batch& other) {
        return other.lr_scale == tensor.lr_scale &&
               other.weight_decay == tensor.weight_decay &&
               other.masters[0].scalar_type() == part.master.scalar_type() &&
               other.rounded.empty() != is_rounded;
      });
  if (batch == batches.end()) {
    batches.push_back(
        {.lr_scale = tensor.lr_scale,
         .weight_decay = tensor.weight_decay,
         .masters = {},
         .gradients = {},
         .states = std::vector<std::vector<at::Tensor>>(state_names_.size()),
         .rounded = {}});
    batch = batches.end() - 1;
  }
  batch->masters.push_back(std::move(part.master));
  batch->gradients.push_back(std::move(part.gradient));
  for (size_t state = 0; state < part.states.size(); ++state) {
    batch->states[state].push_back(std::move(part.states[state]));
  }
  if (is_rounded) {
    batch->rounded.push_back(std::move(part.parameter));
  }
}

void Optimizer::step(double lr, double gradient_scale) {
  const at::NoGradGuard no_grad;
  ++num_steps_;
  if (is_offloaded()) {
    step_on_file(lr, gradient_scale);
    return;
  }
  for (const Batch& batch : batches_) {
    apply(batch, lr, gradient_scale);
  }
}

void Optimizer::apply(const Batch& batch, double lr, double gradient_scale) {
  if (gradient_scale != 1.0) {
    for (const at::Tensor& gradient : batch.gradients) {
      gradient.mul_(gradient_scale);
    }
  }
  update(batch, lr * batch.lr_scale);
  for (size_t i = 0; i < batch.rounded.size(); ++i) {
    batch.rounded[i].copy_(batch.masters[i]);
  }
}

void Optimizer::set_num_steps(int64_t num_steps) {
  TRIAX_CHECK(num_steps >= 0, num_steps);
  num_steps_ = num_steps;
}

std::vector<OptimizerState> Optimizer::states() const {
  TRIAX_CHECK(!is_offloaded(), "the states lie on file");
  std::vector<OptimizerState> states;
  for (size_t i = 0; i < masters_.size(); ++i) {
    if (masters_[i].scalar_type() != tensors_[i].parameter.scalar_type()) {
      states.push_back({"master", static_cast<int64_t>(i), masters_[i]});
    }
  }
  for (size_t name = 0; name < state_names_.size(); ++name) {
    for (size_t i = 0; i < masters_.size(); ++i) {
      states.push_back(
          {state_names_[name], static_cast<int64_t>(i), states_[name][i]});
    }
  }
  return states;
}

int64_t Optimizer::state_bytes() const {
  int64_t nbytes = 0;
  if (is_offloaded()) {
    int64_t numel = 0;
    for (const Range& place : offloaded_.places) {
      numel += place.length;
    }
    std::vector<int> arrays = offloaded_.states;
    if (has_masters_on_file()) {
      arrays.push_back(offloaded_.master);
    }
    for (const int array : arrays) {
      nbytes += numel * static_cast<int64_t>(
                            c10::elementSize(offloaded_.file->dtype(array)));
    }
    return nbytes;
  }
  for (const OptimizerState& state : states()) {
    nbytes += static_cast<int64_t>(state.tensor.nbytes());
  }
  return nbytes;
}

AdamW::AdamW(std::vector<OptimizedTensor> tensors,
             const Options& options,
             const OffloadedOptimizer* offloaded)
    : Optimizer(std::move(tensors), {"exp_avg", "exp_avg_sq"}, offloaded),
      options_(options) {}

void AdamW::update(const Batch& batch, double lr) {
  // The kernel only reads the step: one tensor serves the whole batch.
  const at::Tensor count =
      at::full({},
               static_cast<double>(num_steps()),
               batch.masters[0].options().dtype(at::kFloat));
  const std::vector<at::Tensor> counts(batch.masters.size(), count);
  at::_fused_adamw_(batch.masters,
                    batch.gradients,
                    batch.states[0],
                    batch.states[1],
                    /*max_exp_avg_sqs=*/{},
                    counts,
                    lr,
                    options_.beta1,
                    options_.beta2,
                    batch.weight_decay,
                    options_.eps,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
}

Sgd::Sgd(std::vector<OptimizedTensor> tensors,
         double momentum,
         const OffloadedOptimizer* offloaded)
    : Optimizer(std::move(tensors),
                momentum == 0.0 ? std::vector<std::string>{}
                                : std::vector<std::string>{"momentum_buffer"},
                offloaded),
      momentum_(momentum) {}

void Sgd::update(const Batch& batch, double lr) {
  // Never a first step: a zeroed buffer gives the same, and needs no flag
  // when the run resumes.
  at::_fused_sgd_(
      batch.masters,
      batch.gradients,
      batch.states.empty() ? std::vector<at::Tensor>{} : batch.states[0],
      batch.weight_decay,
      momentum_,
      lr,
      /*dampening=*/0.0,
      /*nesterov=*/false,
      /*maximize=*/false,
      /*is_first_step=*/false);
}

std::vector<std::string> optimizer_state_names(const OptimizerConfig& config) {
  return make_optimizer(config, {})->state_names();
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config,
                                          std::vector<OptimizedTensor> tensors,
                                          const OffloadedOptimizer* offloaded) {
  if (config.name == "adamw") {
    const std::vector<double>& betas = config.betas;
    if (betas.size() != 2 || !is_share(betas[0]) || !is_share(betas[1])) {
      throw Error("optimizer.betas must be two numbers in [0, 1)");
    }
    // 1e-30: fp32 kernels take it as fp32.
    if (!(config.eps >= 1e-30)) {
      throw Error("optimizer.eps must be at least 1e-30, not ",
                  config.eps,
                  ": what has no gradient, such as padding, would become NaN");
    }
    return std::make_unique<AdamW>(
        std::move(tensors),
        AdamW::Options{betas[0], betas[1], config.eps},
        offloaded);
  }
  if (config.name == "sgd") {
    if (!is_share(config.momentum)) {
      throw Error("optimizer.momentum must be in [0, 1), not ",
                  config.momentum);
    }
    return std::make_unique<Sgd>(
        std::move(tensors), config.momentum, offloaded);
  }
  throw Error("optimizer.name must be adamw or sgd, not \"", config.name, "\"");
}

}  // namespace triax
