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

std::vector<at::Tensor> pick(const std::vector<at::Tensor>& tensors,
                             const std::vector<int64_t>& indices) {
  std::vector<at::Tensor> picked;
  picked.reserve(indices.size());
  for (int64_t index : indices) {
    picked.push_back(tensors[index]);
  }
  return picked;
}

void append_states(std::vector<OptimizerState>& states,
                   const std::string& name,
                   const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    states.push_back({name, static_cast<int64_t>(i), tensors[i]});
  }
}

bool is_share(double value) {
  return value >= 0.0 && value < 1.0;
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedTensor> tensors)
    : tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const OptimizedTensor& tensor = tensors_[i];
    check_tensor(tensor);
    // The parameter itself where it has that dtype.
    masters_.push_back(
        tensor.parameter.detach().to(tensor.gradient.scalar_type()));
    if (tensor.parameter.numel() == 0) {
      continue;
    }
    auto batch =
        std::find_if(batches_.begin(), batches_.end(), [&](const Batch& other) {
          return other.lr_scale == tensor.lr_scale &&
                 other.weight_decay == tensor.weight_decay &&
                 other.masters[0].scalar_type() ==
                     tensor.gradient.scalar_type();
        });
    if (batch == batches_.end()) {
      batches_.push_back({tensor.lr_scale, tensor.weight_decay, {}, {}, {}});
      batch = batches_.end() - 1;
    }
    batch->indices.push_back(static_cast<int64_t>(i));
    batch->masters.push_back(masters_.back());
    batch->gradients.push_back(tensor.gradient.detach());
  }
}

void Optimizer::step(double lr, double gradient_scale) {
  const at::NoGradGuard no_grad;
  ++num_steps_;
  for (Batch& batch : batches_) {
    if (gradient_scale != 1.0) {
      for (at::Tensor& gradient : batch.gradients) {
        gradient.mul_(gradient_scale);
      }
    }
    update(batch, lr * batch.lr_scale);
    round_masters(batch);
  }
}

bool Optimizer::has_master(int64_t index) const {
  return tensors_[index].parameter.scalar_type() !=
         masters_[index].scalar_type();
}

void Optimizer::round_masters(const Batch& batch) {
  for (const int64_t index : batch.indices) {
    if (has_master(index)) {
      tensors_[index].parameter.detach().copy_(masters_[index]);
    }
  }
}

void Optimizer::set_num_steps(int64_t num_steps) {
  TRIAX_CHECK(num_steps >= 0, num_steps);
  num_steps_ = num_steps;
}

std::vector<OptimizerState> Optimizer::states() const {
  std::vector<OptimizerState> states;
  for (size_t i = 0; i < masters_.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (has_master(index)) {
      states.push_back({"master", index, masters_[i]});
    }
  }
  const std::vector<OptimizerState> own = own_states();
  states.insert(states.end(), own.begin(), own.end());
  return states;
}

int64_t Optimizer::state_bytes() const {
  int64_t nbytes = 0;
  for (const OptimizerState& state : states()) {
    nbytes += static_cast<int64_t>(state.tensor.nbytes());
  }
  return nbytes;
}

std::vector<at::Tensor> Optimizer::make_state() const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> state;
  state.reserve(masters_.size());
  for (const at::Tensor& master : masters_) {
    state.push_back(at::zeros_like(master));
  }
  return state;
}

AdamW::AdamW(std::vector<OptimizedTensor> tensors, const Options& options)
    : Optimizer(std::move(tensors)),
      options_(options),
      exp_avgs_(make_state()),
      exp_avg_sqs_(make_state()) {}

std::vector<OptimizerState> AdamW::own_states() const {
  std::vector<OptimizerState> states;
  append_states(states, "exp_avg", exp_avgs_);
  append_states(states, "exp_avg_sq", exp_avg_sqs_);
  return states;
}

void AdamW::update(const Batch& batch, double lr) {
  // The kernel only reads the step: one tensor serves the whole batch.
  const at::Tensor count =
      at::full({},
               static_cast<double>(num_steps()),
               batch.masters[0].options().dtype(at::kFloat));
  const std::vector<at::Tensor> counts(batch.indices.size(), count);
  at::_fused_adamw_(batch.masters,
                    batch.gradients,
                    pick(exp_avgs_, batch.indices),
                    pick(exp_avg_sqs_, batch.indices),
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

Sgd::Sgd(std::vector<OptimizedTensor> tensors, double momentum)
    : Optimizer(std::move(tensors)),
      momentum_(momentum),
      momentum_buffers_(momentum == 0.0 ? std::vector<at::Tensor>{}
                                        : make_state()) {}

std::vector<OptimizerState> Sgd::own_states() const {
  std::vector<OptimizerState> states;
  append_states(states, "momentum_buffer", momentum_buffers_);
  return states;
}

void Sgd::update(const Batch& batch, double lr) {
  // Never a first step: a zeroed buffer gives the same, and needs no flag
  // when the run resumes.
  at::_fused_sgd_(batch.masters,
                  batch.gradients,
                  momentum_ == 0.0 ? std::vector<at::Tensor>{}
                                   : pick(momentum_buffers_, batch.indices),
                  batch.weight_decay,
                  momentum_,
                  lr,
                  /*dampening=*/0.0,
                  /*nesterov=*/false,
                  /*maximize=*/false,
                  /*is_first_step=*/false);
}

std::unique_ptr<Optimizer> make_optimizer(
    const OptimizerConfig& config, std::vector<OptimizedTensor> tensors) {
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
        std::move(tensors), AdamW::Options{betas[0], betas[1], config.eps});
  }
  if (config.name == "sgd") {
    if (!is_share(config.momentum)) {
      throw Error("optimizer.momentum must be in [0, 1), not ",
                  config.momentum);
    }
    return std::make_unique<Sgd>(std::move(tensors), config.momentum);
  }
  throw Error("optimizer.name must be adamw or sgd, not \"", config.name, "\"");
}

}  // namespace triax
