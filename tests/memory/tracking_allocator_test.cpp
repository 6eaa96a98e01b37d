// SPDX-License-Identifier: Apache-2.0
#include "triax/memory/tracking_allocator.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>
#include <thread>

#include "tests/support/run_ranks.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

using Category = MemoryCategory;
using testing::HasSubstr;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What LibTorch allocates, in a tracker of the test's own.
class Allocator : public testing::Test {
 protected:
  MemoryTracker& tracker_ = make_memory_tracker();
  const RankMemoryScope rank_{tracker_};

  static void SetUpTestSuite() { install_tracking_allocator(); }
  MemoryUse use() const { return tracker_.use(); }
};

bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 64 == 0;
}

TEST_F(Allocator, CountsATensorWhileItLives) {
  {
    const MemoryScope parameters(Category::kParameters);
    const at::Tensor tensor = at::empty({10, 3}, at::kFloat);
    EXPECT_EQ(use().current[Category::kParameters], 120);
    const at::Tensor view = tensor.narrow(0, 2, 2);
    EXPECT_EQ(use().current.total(), 120);
  }
  EXPECT_EQ(use().current, MemoryBytes{});
  EXPECT_EQ(use().peak.total(), 120);
}

TEST_F(Allocator, KeepsTheAlignmentAndTheRawInterface) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  for (const size_t nbytes : {1, 63, 64, 100, 4096, 1 << 21, 3 << 20}) {
    const c10::DataPtr data = allocator.allocate(nbytes);
    EXPECT_TRUE(is_aligned(data.get())) << nbytes;
    EXPECT_EQ(data.get(), data.get_context());
    EXPECT_TRUE(allocator.is_simple_data_ptr(data));
    void* const raw = allocator.raw_allocate(nbytes);
    EXPECT_TRUE(is_aligned(raw));
    EXPECT_EQ(use().current.total(), int64_t(2 * nbytes));
    allocator.raw_deallocate(raw);
    EXPECT_EQ(use().current.total(), int64_t(nbytes));
  }
  EXPECT_EQ(use().current.total(), 0);
}

TEST_F(Allocator, AnEmptyTensorCostsNothing) {
  const at::Tensor tensor = at::empty({0, 3});
  EXPECT_EQ(tensor.numel(), 0);
  EXPECT_EQ(use().peak.total(), 0);
}

TEST_F(Allocator, FollowsAResizeAndACopy) {
  at::Tensor tensor = at::ones({4}, at::kDouble);
  tensor.resize_({8});
  EXPECT_EQ(use().current.total(), 64);
  const at::Tensor copy = tensor.clone();
  EXPECT_EQ(use().current.total(), 128);
  tensor = at::Tensor();
  EXPECT_EQ(copy[3].item<double>(), 1.0);
  EXPECT_EQ(use().current.total(), 64);
}

TEST_F(Allocator, SeesTheScratchOfKernels) {
  const at::Tensor x = at::ones({1, 16, 32, 32});
  const at::Tensor weight = at::ones({16, 16, 3, 3});
  tracker_.reset_peak();
  const at::Tensor y = at::conv2d(x, weight);
  // The windows of x as columns.
  const int64_t scratch = 16 * 9 * 30 * 30 * int64_t{sizeof(float)};
  EXPECT_GE(use().peak.total(),
            int64_t(x.nbytes() + weight.nbytes() + y.nbytes()) + scratch);
  EXPECT_LE(use().peak.total() - use().current.total(), 2 * scratch);
}

TEST_F(Allocator, SeesTheScratchOfMatrixProducts) {
  if (!at::hasMKL()) {
    GTEST_SKIP() << "LibTorch has no MKL";
  }
  MemoryUse seen;
  // A thread that multiplied nothing yet: MKL keeps the scratch of a thread.
  std::thread thread([&] {
    const RankMemoryScope rank(tracker_);
    at::set_num_threads(1);
    const at::Tensor x = at::ones({1024, 1024});
    const ActivationScope forward;
    const at::Tensor y = at::mm(x, x);
    EXPECT_EQ(y[3][4].item<float>(), 1024.0f);
    seen = use();
  });
  thread.join();
  EXPECT_GT(seen.current[Category::kTemporary], (4 << 20) + (64 << 10));
  EXPECT_LT(seen.current[Category::kActivations], (4 << 20) + 100);
}

TEST_F(Allocator, TheLimitIsAnErrorThatCanBeCaught) {
  const at::Tensor kept = at::ones({1000});
  tracker_.set_limit(10000);
  EXPECT_THROW(at::ones({1501}), OutOfMemory);
  EXPECT_EQ(use().current.total(), 4000);
  EXPECT_EQ(at::ones({1500}).numel(), 1500);
}

/// y = x; backward needs scratch that the limit does not give.
class Greedy : public torch::autograd::Function<Greedy> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static variable_list backward(AutogradContext*, variable_list grads) {
    at::ones({1 << 20});
    return grads;
  }
};

TEST_F(Allocator, TheLimitInABackwardPassKeepsItsType) {
  const at::Tensor x = at::ones({10}).requires_grad_();
  const at::Tensor y = Greedy::apply(x).sum();
  tracker_.set_limit(1 << 20);
  EXPECT_THROW(y.backward(), OutOfMemory);
}

TEST_F(Allocator, WhatTheSystemRefusesIsNotEntered) {
  const at::Tensor kept = at::ones({1000});
  try {
    at::empty({int64_t{1} << 60}, at::kByte);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.request().limit, 0);
    EXPECT_THAT(error.what(), HasSubstr("the system has no"));
    EXPECT_THAT(error.what(), HasSubstr("in use are temporary 3.9 KiB"));
  }
  EXPECT_EQ(use().current.total(), 4000);
}

TEST(Allocators, RanksThatAreThreadsHaveAccountsOfTheirOwn) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const at::Tensor mine = at::ones({100 * (world->rank() + 1)});
    world->barrier();
    EXPECT_EQ(this_rank_memory().use().current.total(),
              400 * (world->rank() + 1));
  });
}

}  // namespace
}  // namespace triax
