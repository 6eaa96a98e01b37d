// SPDX-License-Identifier: Apache-2.0
#include "triax/pipeline_parallel/executor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/run_ranks.h"
#include "triax/schedule/gpipe.h"
#include "triax/schedule/schedule.h"

namespace triax {
namespace {

at::Tensor microbatch_input(int microbatch) {
  return at::linspace(0.1, 1.0, 12, at::kDouble).view({3, 4}) +
         0.01 * microbatch;
}

at::Tensor stage_weight(int stage) {
  return (at::linspace(0.5, 1.5, 16, at::kDouble).view({4, 4}) + 0.1 * stage)
      .requires_grad_();
}

at::Tensor stage_output(const at::Tensor& input, const at::Tensor& weight) {
  return input.matmul(weight).tanh();
}

struct Outcome {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};

Outcome run_alone(int num_stages, int num_microbatches) {
  Outcome outcome;
  std::vector<at::Tensor> weights;
  for (int stage = 0; stage < num_stages; ++stage) {
    weights.push_back(stage_weight(stage));
  }
  for (int m = 0; m < num_microbatches; ++m) {
    at::Tensor x = microbatch_input(m);
    for (const at::Tensor& weight : weights) {
      x = stage_output(x, weight);
    }
    at::Tensor loss = x.pow(2).sum();
    outcome.loss += loss.item<double>();
    loss.backward();
  }
  for (const at::Tensor& weight : weights) {
    outcome.gradients.push_back(weight.grad());
  }
  return outcome;
}

Outcome run_pipeline(const std::string& schedule,
                     int num_stages,
                     int num_microbatches) {
  Outcome outcome;
  outcome.gradients.resize(num_stages);
  std::mutex mutex;
  const auto lists = make_schedule(schedule, num_stages, num_microbatches);
  run_ranks(num_stages, [&](std::unique_ptr<Group> world) {
    const int stage = world->rank();
    const at::Tensor weight = stage_weight(stage);
    const bool is_last = stage == num_stages - 1;
    double loss_sum = 0;
    StageCalls calls;
    calls.forward = [&](int microbatch, const at::Tensor& input) {
      const at::Tensor x =
          input.defined() ? input : microbatch_input(microbatch);
      at::Tensor y = stage_output(x, weight);
      if (is_last) {
        y = y.pow(2).sum();
        loss_sum += y.item<double>();
      }
      return y;
    };
    calls.make_activation = [](int) { return at::empty({3, 4}, at::kDouble); };
    int num_last = 0;
    calls.before_backward = [&](int, bool is_last_backward) {
      num_last += is_last_backward;
    };
    Recorder recorder(Board::create(1), 0);
    Executor executor(lists[stage], *world, calls, recorder);
    executor.run();
    EXPECT_EQ(num_last, 1);
    const std::lock_guard lock(mutex);
    outcome.loss += loss_sum;
    outcome.gradients[stage] = weight.grad();
  });
  return outcome;
}

class Pipeline : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Pipeline, EqualsOneRankForEveryNumberOfMicrobatches) {
  const auto [schedule, num_stages] = GetParam();
  for (int num_microbatches : {1, 2, 3, 5, 8}) {
    const Outcome expected = run_alone(num_stages, num_microbatches);
    const Outcome got = run_pipeline(schedule, num_stages, num_microbatches);
    EXPECT_NEAR(got.loss, expected.loss, 1e-12 * expected.loss);
    for (int stage = 0; stage < num_stages; ++stage) {
      EXPECT_TRUE(got.gradients[stage].allclose(
          expected.gradients[stage], 1e-12, 1e-14))
          << schedule << " stage " << stage << " m " << num_microbatches;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules,
                         Pipeline,
                         testing::Combine(testing::Values("gpipe", "1f1b"),
                                          testing::Values(1, 2, 3, 4)));

TEST(Executor, RunsForwardOnlyWithoutAGraph) {
  const auto lists = for_all_ranks(forward_only, 3, 4);
  run_ranks(3, [&](std::unique_ptr<Group> world) {
    const at::Tensor weight = stage_weight(world->rank());
    int num_outputs = 0;
    StageCalls calls;
    calls.forward = [&](int microbatch, const at::Tensor& input) {
      const at::Tensor x =
          input.defined() ? input : microbatch_input(microbatch);
      const at::Tensor y = stage_output(x, weight);
      EXPECT_FALSE(y.requires_grad());
      ++num_outputs;
      return y;
    };
    calls.make_activation = [](int) { return at::empty({3, 4}, at::kDouble); };
    Recorder recorder(Board::create(1), 0);
    Executor(lists[world->rank()], *world, calls, recorder).run();
    EXPECT_EQ(num_outputs, 4);
  });
}

}  // namespace
}  // namespace triax
