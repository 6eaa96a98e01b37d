// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>
#include <vector>

namespace triax {
namespace {

class BeforeGradient : public torch::autograd::FunctionPreHook {
 public:
  explicit BeforeGradient(std::function<void()> call)
      : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override {
    call_();
    return gradients;
  }

 private:
  const std::function<void()> call_;
};

class AfterGradient : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AfterGradient(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

 private:
  const std::function<void()> call_;
};

}  // namespace

void before_gradient(const at::Tensor& parameter, std::function<void()> call) {
  auto hook = std::make_unique<BeforeGradient>(std::move(call));
  auto& hooks = torch::autograd::impl::hooks(parameter);
  if (hooks.empty()) {
    torch::autograd::impl::add_hook(parameter, std::move(hook));
    return;
  }
  std::erase_if(hooks, [](const auto& other) {
    return dynamic_cast<const BeforeGradient*>(other.get()) != nullptr;
  });
  hooks.push_back(std::move(hook));
}

void after_gradient(const at::Tensor& parameter, std::function<void()> call) {
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, std::make_unique<AfterGradient>(std::move(call)));
}

}  // namespace triax
