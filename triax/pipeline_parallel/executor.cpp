// SPDX-License-Identifier: Apache-2.0
#include "triax/pipeline_parallel/executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "triax/base/error.h"
#include "triax/memory/tracker.h"
#include "triax/mesh/tensor_group.h"

namespace triax {

Executor::Executor(std::vector<Action> actions,
                   Group& pp,
                   StageCalls calls,
                   Recorder& recorder)
    : actions_(std::move(actions)),
      pp_(pp),
      calls_(std::move(calls)),
      recorder_(recorder) {
  for (const Action& action : actions_) {
    if (action.kind == ActionKind::kBackward) {
      last_backward_ = action.microbatch;
      keeps_graph_ = true;
    }
  }
}

void Executor::run() {
  const at::AutoGradMode mode(keeps_graph_);
  for (const Action& action : actions_) {
    switch (action.kind) {
      case ActionKind::kReceiveActivation:
        receive_activation(action.microbatch);
        break;
      case ActionKind::kForward:
        forward(action.microbatch);
        break;
      case ActionKind::kSendActivation:
        send_activation(action.microbatch);
        break;
      case ActionKind::kReceiveGradient:
        receive_gradient(action.microbatch);
        break;
      case ActionKind::kBackward:
        backward(action.microbatch);
        break;
      case ActionKind::kSendGradient:
        send_gradient(action.microbatch);
        break;
    }
    drop_finished_sends();
  }
  for (auto& [tensor, work] : sends_) {
    work.wait();
  }
  sends_.clear();
  TRIAX_CHECK(live_.empty(), live_.size(), " microbatches were left over");
}

void Executor::receive_activation(int microbatch) {
  Live& live = live_[microbatch];
  {
    const MemoryScope memory(MemoryCategory::kActivations);
    live.input = calls_.make_activation(microbatch);
  }
  pp_.recv(as_buffer(live.input), pp_.rank() - 1);
  live.input.requires_grad_(keeps_graph_);
}

void Executor::forward(int microbatch) {
  Live& live = live_[microbatch];
  const auto span = record(EventKind::kForward, microbatch);
  const ActivationScope memory;
  live.output = calls_.forward(microbatch, live.input);
  const bool is_last_stage = pp_.rank() == pp_.size() - 1;
  if (!keeps_graph_ && is_last_stage) {
    live_.erase(microbatch);
  }
}

void Executor::send_activation(int microbatch) {
  Live& live = live_.at(microbatch);
  send(live.output.detach().contiguous(), pp_.rank() + 1);
  if (!keeps_graph_) {
    live_.erase(microbatch);
  }
}

void Executor::receive_gradient(int microbatch) {
  Live& live = live_.at(microbatch);
  {
    const MemoryScope memory(MemoryCategory::kCommunication);
    live.gradient = at::empty_like(live.output, at::MemoryFormat::Contiguous);
  }
  pp_.recv(as_buffer(live.gradient), pp_.rank() + 1);
}

void Executor::backward(int microbatch) {
  Live& live = live_.at(microbatch);
  const auto span = record(EventKind::kBackward, microbatch);
  if (calls_.before_backward) {
    calls_.before_backward(microbatch, microbatch == last_backward_);
  }
  torch::autograd::variable_list gradients;
  if (live.gradient.defined()) {
    gradients.push_back(live.gradient);
  }
  // Nothing of it is trained when this stage and all before it are frozen.
  if (live.output.requires_grad()) {
    torch::autograd::backward({live.output}, gradients);
  }
  if (calls_.after_backward) {
    calls_.after_backward();
  }
  live.output = at::Tensor();
  live.gradient = at::Tensor();
  if (!live.input.defined()) {
    live_.erase(microbatch);
  }
}

void Executor::send_gradient(int microbatch) {
  const auto live = live_.find(microbatch);
  TRIAX_CHECK(live != live_.end() && live->second.input.grad().defined(),
              "no gradient of microbatch ",
              microbatch,
              "'s input");
  send(live->second.input.grad().contiguous(), pp_.rank() - 1);
  live_.erase(live);
}

void Executor::send(const at::Tensor& tensor, int peer) {
  sends_.emplace_back(tensor, pp_.send_async(as_buffer(tensor), peer));
}

Recorder::Span Executor::record(EventKind kind, int microbatch) {
  return recorder_.span(kind, {.microbatch = microbatch, .stage = pp_.rank()});
}

void Executor::drop_finished_sends() {
  while (!sends_.empty() && sends_.front().second.is_done()) {
    sends_.front().second.wait();
    sends_.pop_front();
  }
}

}  // namespace triax
