// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "triax/comm/group.h"
#include "triax/comm/recorder.h"
#include "triax/schedule/action.h"

namespace triax {

/// What a stage computes, told to the executor, which knows no model.
struct StageCalls {
  /// The stage's output for a microbatch, or on the last stage its loss (0
  /// dims, scaled so that the microbatches' gradients add up). `input` is
  /// undefined on the first stage.
  std::function<at::Tensor(int microbatch, const at::Tensor& input)> forward;
  /// The activation that this stage receives for a microbatch, on this and
  /// the previous stage alike, uninitialised.
  std::function<at::Tensor(int microbatch)> make_activation;
  /// Called before a microbatch's backward; may be empty.
  std::function<void(int microbatch, bool is_last)> before_backward;
  /// Called after it; may be empty.
  std::function<void()> after_backward = {};
};

/// Carries out one rank's list of actions (from schedule/). Sends are started
/// and waited for at the end, so that a stage goes on computing; what is sent
/// stays alive until then. A receive stands where its message is needed, and
/// waits. Every rank of `pp` must run the lists of one
/// schedule. Activations and their gradients have the same shape.
class Executor {
 public:
  Executor(std::vector<Action> actions,
           Group& pp,
           StageCalls calls,
           Recorder& recorder);

  /// Runs all actions once. With only forward actions no graph is kept.
  /// Throws what the calls and the group throw; the executor is then unusable.
  void run();

 private:
  void receive_activation(int microbatch);
  void forward(int microbatch);
  void send_activation(int microbatch);
  void receive_gradient(int microbatch);
  void backward(int microbatch);
  void send_gradient(int microbatch);
  void send(const at::Tensor& tensor, int peer);
  void drop_finished_sends();
  Recorder::Span record(EventKind kind, int microbatch);

  struct Live {
    at::Tensor input;     // received, a leaf that requires grad
    at::Tensor output;    // or the loss
    at::Tensor gradient;  // received for the output
  };

  const std::vector<Action> actions_;
  Group& pp_;
  const StageCalls calls_;
  Recorder& recorder_;
  int last_backward_ = -1;
  bool keeps_graph_ = false;
  std::map<int, Live> live_;
  std::deque<std::pair<at::Tensor, Work>> sends_;
};

}  // namespace triax
