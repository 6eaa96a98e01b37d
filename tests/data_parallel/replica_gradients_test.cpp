// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/replica_gradients.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>

#include "tests/support/run_ranks.h"
#include "triax/base/error.h"
#include "triax/data_parallel/flat_buffer.h"
#include "triax/data_parallel/flat_parameters.h"
#include "triax/data_parallel/sharded_gradients.h"

namespace triax {
namespace {

std::vector<at::Tensor> make_parameters(const std::vector<int64_t>& sizes) {
  std::vector<at::Tensor> parameters;
  for (int64_t size : sizes) {
    parameters.push_back(at::ones({size}, at::kDouble).requires_grad_());
  }
  return parameters;
}

/// Each parameter's gradient gets `value` in every element.
void run_backward(const std::vector<at::Tensor>& parameters, double value) {
  at::Tensor sum = at::full({}, 0.0, at::kDouble);
  for (const at::Tensor& parameter : parameters) {
    sum = sum + parameter.sum() * value;
  }
  torch::autograd::backward({sum}, {});
}

// Case 19: two replicas, two microbatches each, gradients (1, 3) and (5, 7).
// The mean is 4 in every stage and for every bucket size; "last only" gives 5,
// "first only" 3.
TEST(Case19, SumsMicrobatchesAndReplicasInEveryStage) {
  for (const int zero : {0, 1, 2}) {
    for (const int64_t cap : {1, 64, 1000, 1 << 27}) {
      run_ranks(2, [&](std::unique_ptr<Group> world) {
        const auto parameters = make_parameters({1, 100, 3, 64, 500, 0});
        ReplicaGroups groups(*world, zero == 0 ? 1 : 2);
        const FlatLayout layout = make_flat_layout(
            numels_of(parameters),
            {.bucket_numel = cap, .num_shards = zero == 0 ? 1 : 2});
        const auto gradients =
            make_replica_gradients(zero, parameters, layout, groups);
        const double first = world->rank() == 0 ? 1 : 5;
        for (int step = 0; step < 2; ++step) {
          gradients->zero();
          for (const bool is_last : {false, true}) {
            gradients->before_backward(is_last);
            run_backward(parameters, (is_last ? first + 2 : first) / 4);
            gradients->after_backward();
          }
          gradients->finish();
          for (const auto& slice : slices_of_shard(layout, groups.shard())) {
            const at::Tensor mine = gradients->owned(slice);
            EXPECT_TRUE(at::equal(mine, at::full_like(mine, 4.0)))
                << "zero " << zero << " cap " << cap;
          }
          gradients->gather();
          for (const at::Tensor& parameter : parameters) {
            EXPECT_TRUE(
                at::equal(parameter.grad(), at::full_like(parameter, 4.0)))
                << "zero " << zero << " cap " << cap;
          }
          gradients->release();
        }
      });
    }
  }
}

// The hook of one parameter throws when others have their gradient.
TEST(ReplicaGradients, ForgetABackwardThatThrew) {
  for (const int zero : {0, 1, 2}) {
    for (const int64_t cap : {1, 128, 1 << 20}) {
      run_ranks(2, [&](std::unique_ptr<Group> world) {
        const auto parameters = make_parameters({64, 100, 3, 64});
        const int shards = zero == 0 ? 1 : 2;
        ReplicaGroups groups(*world, shards);
        const auto gradients = make_replica_gradients(
            zero,
            parameters,
            make_flat_layout(numels_of(parameters),
                             {.bucket_numel = cap, .num_shards = shards}),
            groups);
        const auto run = [&](double value) {
          gradients->zero();
          for (const bool is_last : {false, true}) {
            gradients->before_backward(is_last);
            run_backward(parameters, value);
            gradients->after_backward();
          }
          gradients->finish();
        };
        const unsigned hook = parameters[2].register_hook(
            [](const at::Tensor&) { throw Error("broken on purpose"); });
        EXPECT_THROW(run(1000.0), Error);
        parameters[2].remove_hook(hook);
        run(3.0);
        gradients->gather();
        for (const at::Tensor& parameter : parameters) {
          EXPECT_TRUE(
              at::equal(parameter.grad(), at::full_like(parameter, 12.0)))
              << "zero " << zero << " cap " << cap;
        }
        gradients->release();
      });
    }
  }
}

// LibTorch's register_hook() clears what hooks a tensor had.
TEST(ReplicaGradients, AreRightBesideAHookOfTheUsers) {
  for (const int zero : {0, 1, 2}) {
    for (const int64_t cap : {1, 1 << 20}) {
      run_ranks(2, [&](std::unique_ptr<Group> world) {
        const auto parameters = make_parameters({64, 100, 3});
        const int shards = zero == 0 ? 1 : 2;
        ReplicaGroups groups(*world, shards);
        const auto gradients = make_replica_gradients(
            zero,
            parameters,
            make_flat_layout(numels_of(parameters),
                             {.bucket_numel = cap, .num_shards = shards}),
            groups);
        for (const at::Tensor& parameter : parameters) {
          parameter.register_hook(
              [](const at::Tensor& gradient) { return gradient * 2.0; });
        }
        gradients->zero();
        for (const bool is_last : {false, true}) {
          gradients->before_backward(is_last);
          run_backward(parameters, 3.0);
          gradients->after_backward();
        }
        gradients->finish();
        gradients->gather();
        for (const at::Tensor& parameter : parameters) {
          EXPECT_TRUE(
              at::equal(parameter.grad(), at::full_like(parameter, 24.0)))
              << "zero " << zero << " cap " << cap;
        }
        gradients->release();
      });
    }
  }
}

// Nobody to sum with, and nothing to sum.
TEST(ReplicaGradients, OfOneRankWithoutABackwardAreZero) {
  for (const int zero : {0, 1, 2}) {
    run_ranks(1, [&](std::unique_ptr<Group> world) {
      const auto parameters = make_parameters({5, 64, 0});
      ReplicaGroups groups(*world, 1);
      const FlatLayout layout = make_flat_layout(
          numels_of(parameters), {.bucket_numel = 1, .num_shards = 1});
      const auto gradients =
          make_replica_gradients(zero, parameters, layout, groups);
      for (const double value : {0.0, 2.0, 0.0}) {
        gradients->zero();
        gradients->before_backward(/*is_last=*/true);
        if (value != 0.0) {
          run_backward(parameters, value);
        }
        gradients->after_backward();
        gradients->finish();
        for (const ShardSlice& slice : slices_of_shard(layout, 0)) {
          const at::Tensor mine = gradients->owned(slice);
          EXPECT_TRUE(at::equal(mine, at::full_like(mine, value))) << zero;
        }
      }
    });
  }
}

/// What each element's gradient is after two microbatches of random numbers.
std::vector<at::Tensor> random_sums(int dp, int zero, int64_t cap) {
  std::vector<at::Tensor> sums;
  std::mutex mutex;
  run_ranks(dp, [&](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({65, 100, 3, 640});
    const int shards = zero == 0 ? 1 : dp;
    ReplicaGroups groups(*world, shards);
    const auto gradients = make_replica_gradients(
        zero,
        parameters,
        make_flat_layout(numels_of(parameters),
                         {.bucket_numel = cap, .num_shards = shards}),
        groups);
    gradients->zero();
    gradients->before_backward(true);
    at::Tensor sum = at::full({}, 0.0, at::kDouble);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const at::Tensor factor = at::arange(parameters[i].numel(), at::kDouble)
                                    .add(static_cast<double>(i + 1))
                                    .reciprocal()
                                    .mul(1.0 + 0.37 * world->rank());
      sum = sum + (parameters[i] * factor).sum();
    }
    torch::autograd::backward({sum}, {});
    gradients->after_backward();
    gradients->finish();
    gradients->gather();
    const std::lock_guard lock(mutex);
    sums.clear();
    for (const at::Tensor& parameter : parameters) {
      sums.push_back(parameter.grad().clone());
    }
  });
  return sums;
}

TEST(ReplicaGradients, HaveTheSameBitsInEveryStageAndBucket) {
  for (const int dp : {2, 3, 4}) {
    const auto expected = random_sums(dp, 0, 1 << 20);
    for (const int zero : {0, 1, 2}) {
      for (const int64_t cap : {1, 128, 1 << 20}) {
        const auto sums = random_sums(dp, zero, cap);
        for (size_t i = 0; i < sums.size(); ++i) {
          EXPECT_TRUE(at::equal(sums[i], expected[i]))
              << "dp " << dp << " zero " << zero << " cap " << cap;
        }
      }
    }
  }
}

/// Four microbatches of parameters that are used in the order of the buffer's
/// end to its start, as a chain of layers does.
int most_blocks(const std::vector<int64_t>& sizes, int64_t cap) {
  int most = 0;
  std::mutex mutex;
  run_ranks(2, [&](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters(sizes);
    ReplicaGroups groups(*world, 2);
    ShardedGradients gradients(
        parameters,
        make_flat_layout(numels_of(parameters),
                         {.bucket_numel = cap, .num_shards = 2}),
        groups);
    gradients.zero();
    for (int microbatch = 0; microbatch < 4; ++microbatch) {
      gradients.before_backward(microbatch == 3);
      at::Tensor x = at::ones({64}, at::kDouble);
      for (size_t i = parameters.size(); i-- > 0;) {
        x = x * parameters[i];
      }
      torch::autograd::backward({x.sum()}, {});
      gradients.after_backward();
    }
    gradients.finish();
    const std::lock_guard lock(mutex);
    most = std::max(most, gradients.most_blocks());
  });
  return most;
}

TEST(ShardedGradients, HoldTwoBlocksAtMost) {
  EXPECT_EQ(most_blocks(std::vector<int64_t>(9, 64), 64), 2);
  EXPECT_EQ(most_blocks(std::vector<int64_t>(9, 64), 192), 2);
  EXPECT_EQ(most_blocks({64}, 64), 2);
}

// Rank 1 uses only the second parameter, the others only the first: every
// bucket is reduced by all.
TEST(ShardedGradients, ReduceParametersThatNoOneUsed) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({4, 4, 4});
    ReplicaGroups groups(*world, 3);
    ShardedGradients gradients(
        parameters,
        make_flat_layout({4, 4, 4}, {.bucket_numel = 1, .num_shards = 3}),
        groups);
    gradients.zero();
    gradients.before_backward(true);
    const at::Tensor& used = parameters[world->rank() == 1 ? 1 : 0];
    torch::autograd::backward({used.sum()}, {});
    gradients.after_backward();
    gradients.finish();
    gradients.gather();
    EXPECT_EQ(parameters[0].grad().sum().item<double>(), 8.0);
    EXPECT_EQ(parameters[1].grad().sum().item<double>(), 4.0);
    EXPECT_EQ(parameters[2].grad().sum().item<double>(), 0.0);
  });
}

// A weight that is used in two parts of the graph, each of which runs backward
// on its own, as recomputed blocks do: its gradient comes twice.
TEST(ShardedGradients, AddWhatComesAfterABucketWasReduced) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({64, 64, 64});
    ReplicaGroups groups(*world, 2);
    ShardedGradients gradients(
        parameters,
        make_flat_layout({64, 64, 64}, {.bucket_numel = 64, .num_shards = 2}),
        groups);
    for (int num_microbatches : {1, 3}) {
      gradients.zero();
      for (int i = 0; i < num_microbatches; ++i) {
        gradients.before_backward(i + 1 == num_microbatches);
        for (const double value : {1.0, 2.0}) {
          run_backward(parameters, value);
        }
        gradients.after_backward();
      }
      gradients.finish();
      gradients.gather();
      for (const at::Tensor& parameter : parameters) {
        EXPECT_EQ(parameter.grad().min().item<double>(), 6 * num_microbatches);
        EXPECT_EQ(parameter.grad().max().item<double>(), 6 * num_microbatches);
      }
      gradients.release();
    }
  });
}

TEST(ShardedGradients, LeaveNothingBehindInTheParameters) {
  const auto parameters = make_parameters({4});
  run_ranks(1, [&](std::unique_ptr<Group> world) {
    ReplicaGroups groups(*world);
    ShardedGradients gradients(parameters, make_flat_layout({4}, {}), groups);
  });
  run_backward(parameters, 1.0);
  EXPECT_EQ(parameters[0].grad().sum().item<double>(), 4.0);
}

TEST(FlatParameters, KeepTheirValuesAndAreGathered) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto parameters = make_parameters({70, 1, 300});
    const FlatLayout layout = make_flat_layout(
        numels_of(parameters), {.bucket_numel = 100, .num_shards = 3});
    FlatParameters flat(parameters, layout);
    EXPECT_EQ(flat.nbytes(), layout.numel() * 8);
    for (const at::Tensor& parameter : parameters) {
      EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
      EXPECT_TRUE(at::equal(parameter, at::ones_like(parameter)));
    }
    for (const auto& slice : slices_of_shard(layout, world->rank())) {
      parameters[slice.parameter]
          .detach()
          .narrow(0, slice.elements.start, slice.elements.length)
          .fill_(5.0);
    }
    flat.gather(*world);
    for (const at::Tensor& parameter : parameters) {
      EXPECT_TRUE(at::equal(parameter, at::full_like(parameter, 5.0)));
    }
  });
}

// Four replicas in two groups of two: (0 + 1) + (2 + 3), on every rank.
TEST(ReplicaGroups, SumWithinAGroupAndThenAcross) {
  for (const int zero : {1, 2}) {
    run_ranks(4, [zero](std::unique_ptr<Group> world) {
      const auto parameters = make_parameters({100, 3});
      ReplicaGroups groups(*world, 2);
      EXPECT_EQ(groups.shards()->size(), 2);
      EXPECT_EQ(groups.replicas()->size(), 2);
      EXPECT_EQ(groups.shard(), world->rank() % 2);
      EXPECT_EQ(groups.is_first_replica(), world->rank() < 2);
      const auto gradients = make_replica_gradients(
          zero,
          parameters,
          make_flat_layout({100, 3}, {.bucket_numel = 1, .num_shards = 2}),
          groups);
      gradients->zero();
      gradients->before_backward(true);
      run_backward(parameters, 1 << world->rank());
      gradients->after_backward();
      gradients->finish();
      gradients->gather();
      for (const at::Tensor& parameter : parameters) {
        EXPECT_TRUE(
            at::equal(parameter.grad(), at::full_like(parameter, 15.0)));
      }
    });
  }
}

}  // namespace
}  // namespace triax
