// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/bucket.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "tests/support/run_ranks.h"
#include "triax/data_parallel/gradient_hooks.h"

namespace triax {
namespace {

std::vector<at::Tensor> make_parameters(const std::vector<int64_t>& sizes) {
  std::vector<at::Tensor> parameters;
  for (int64_t size : sizes) {
    parameters.push_back(at::ones({size}, at::kDouble).requires_grad_());
  }
  return parameters;
}

/// Each parameter's gradient gets `value` from one backward.
void add_gradient(const std::vector<at::Tensor>& parameters, double value) {
  at::Tensor sum = parameters[0].sum() * value;
  for (size_t i = 1; i < parameters.size(); ++i) {
    sum = sum + parameters[i].sum() * value;
  }
  torch::autograd::backward({sum}, {});
}

TEST(FlatBuffer, StartsEveryParameterAtAMultipleOf64) {
  const auto parameters = make_parameters({1, 64, 65, 3});
  const FlatBuffer buffer(parameters);
  const FlatLayout& layout = buffer.layout();
  EXPECT_EQ(layout.parameters[0], (Range{0, 1}));
  EXPECT_EQ(layout.parameters[1], (Range{64, 64}));
  EXPECT_EQ(layout.parameters[2], (Range{128, 65}));
  EXPECT_EQ(layout.parameters[3], (Range{256, 3}));
  EXPECT_EQ(buffer.numel(), 320);
}

TEST(FlatBuffer, CollectsWhatAutogradAdds) {
  const auto parameters = make_parameters({3, 70});
  FlatBuffer buffer(parameters);
  add_gradient(parameters, 2.0);
  add_gradient(parameters, 3.0);
  EXPECT_EQ(buffer.gradient(0).sum().item<double>(), 15.0);
  EXPECT_EQ(buffer.gradient(1).sum().item<double>(), 350.0);
  EXPECT_EQ(buffer.slice({0, buffer.numel()}).sum().item<double>(), 365.0);
  buffer.zero();
  EXPECT_EQ(parameters[1].grad().abs().sum().item<double>(), 0.0);
}

// 257 is no bf16 number.
TEST(FlatBuffer, HoldsFp32GradientsOf16BitParameters) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const std::vector<at::Tensor> parameters = {
        at::ones({3}, type).requires_grad_(),
        at::ones({70}, type).requires_grad_()};
    FlatBuffer buffer(parameters);
    EXPECT_EQ(buffer.nbytes(), 4 * buffer.numel());
    int num_calls = 0;
    after_gradient(parameters[1], [&] { ++num_calls; });
    for (const double value : {256.0, 1.0, 4096.0}) {
      add_gradient(parameters, value);
    }
    EXPECT_EQ(num_calls, 3);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(parameters[i].grad().data_ptr(), buffer.gradient(i).data_ptr());
      EXPECT_EQ(buffer.gradient(i).max().item<double>(), 4353.0);
      EXPECT_EQ(buffer.gradient(i).min().item<double>(), 4353.0);
    }
  }
}

// Two replicas, two microbatches each, gradients (1, 3) and (5, 7): the mean
// is 4 for every bucket size; "last only" gives 5, "first only" 3.
TEST(BucketReducer, SumsEveryMicrobatchOfEveryReplica) {
  for (int64_t cap : {1, 64, 1000, 1 << 27}) {
    run_ranks(2, [cap](std::unique_ptr<Group> world) {
      const auto parameters = make_parameters({1, 100, 3, 64, 500});
      FlatBuffer buffer(parameters, {.bucket_numel = cap});
      ReplicaGroups groups(*world);
      BucketReducer reducer(buffer, groups);
      const double first = world->rank() == 0 ? 1 : 5;
      for (int step = 0; step < 2; ++step) {
        buffer.zero();
        add_gradient(parameters, first / 4);
        reducer.prepare();
        add_gradient(parameters, (first + 2) / 4);
        reducer.finish();
        for (int i = 0; i < buffer.num_parameters(); ++i) {
          const at::Tensor& gradient = buffer.gradient(i);
          EXPECT_EQ(gradient.min().item<double>(), 4.0) << "cap " << cap;
          EXPECT_EQ(gradient.max().item<double>(), 4.0) << "cap " << cap;
        }
      }
    });
  }
}

TEST(BucketReducer, StartsBeforeTheLastGradientArrives) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({64, 64, 64});
    FlatBuffer buffer(parameters, {.bucket_numel = 64});
    ReplicaGroups groups(*world);
    BucketReducer reducer(buffer, groups);
    std::vector<double> last_gradient_at_start;
    reducer.before_reduce = [&](int) {
      last_gradient_at_start.push_back(buffer.gradient(2).sum().item<double>());
    };
    // A chain, so that the parameters' gradients arrive one after the other.
    at::Tensor x = at::ones({64}, at::kDouble);
    x = x * parameters[2];
    x = x * parameters[1];
    x = x * parameters[0];
    reducer.prepare();
    torch::autograd::backward({x.sum()}, {});
    reducer.finish();
    ASSERT_EQ(last_gradient_at_start.size(), 3u);
    EXPECT_EQ(last_gradient_at_start[0], 0.0);
    EXPECT_EQ(last_gradient_at_start[2], 64.0);
  });
}

TEST(BucketReducer, ReducesParametersThatNoOneUsed) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({4, 4});
    FlatBuffer buffer(parameters, {.bucket_numel = 1});
    ReplicaGroups groups(*world);
    BucketReducer reducer(buffer, groups);
    reducer.prepare();
    // Rank 1 uses only the second parameter, the others only the first.
    const at::Tensor& used = parameters[world->rank() == 1 ? 1 : 0];
    torch::autograd::backward({used.sum()}, {});
    reducer.finish();
    EXPECT_EQ(buffer.gradient(0).sum().item<double>(), 8.0);
    EXPECT_EQ(buffer.gradient(1).sum().item<double>(), 4.0);
  });
}

TEST(BucketReducer, LeavesNothingBehindInTheParameters) {
  const auto parameters = make_parameters({4});
  FlatBuffer buffer(parameters);
  run_ranks(1, [&](std::unique_ptr<Group> world) {
    ReplicaGroups groups(*world);
    BucketReducer reducer(buffer, groups);
  });
  add_gradient(parameters, 1.0);
  EXPECT_EQ(buffer.gradient(0).sum().item<double>(), 4.0);
}

}  // namespace
}  // namespace triax
