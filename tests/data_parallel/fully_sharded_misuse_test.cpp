// SPDX-License-Identifier: Apache-2.0
// What a program may do around a FullyShardedModule: nothing is lost in
// silence, and what cannot be is said.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <stdexcept>

#include "tests/support/module_kinds.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tensors.h"
#include "triax/base/error.h"
#include "triax/data_parallel/fully_sharded_module.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kLr = 1e-2;
const FullyShardedOptions kLayers = {.units = {"layers.*"}};

std::vector<at::Tensor> values_of(FullyShardedModule& sharded,
                                  const torch::nn::Module& module) {
  const WholeParameters whole = sharded.gather_all();
  std::vector<at::Tensor> values;
  for (const at::Tensor& parameter : module.parameters()) {
    values.push_back(parameter.detach().clone());
  }
  return values;
}

void expect_all(const std::vector<at::Tensor>& values, double value) {
  for (const at::Tensor& tensor : values) {
    EXPECT_TRUE(bits_equal(tensor, at::full_like(tensor, value)));
  }
}

using Disturb = std::function<void(
    TrainedModule& module, FullyShardedModule& sharded, int rank, int step)>;

/// Training gives the same bits whatever is done before each backward pass.
void expect_undisturbed(const Disturb& disturb) {
  run_ranks(2, [&](std::unique_ptr<Group> world) {
    std::vector<at::Tensor> expected;
    for (const bool is_disturbed : {false, true}) {
      const auto module = make_module("stack");
      FullyShardedModule sharded(*module, *world, kLayers);
      AdamW optimizer(sharded.optimized(), {});
      for (int step = 0; step < 3; ++step) {
        if (is_disturbed) {
          disturb(*module, sharded, world->rank(), step);
        }
        sharded.backward(module->loss(world->rank(), step));
        sharded.step(optimizer, {.lr = kLr});
      }
      const std::vector<at::Tensor> values = values_of(sharded, *module);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(bits_equal(values[i], expected[i])) << i;
      }
      expected = values;
    }
  });
}

TEST(FullyShardedMisuse, ZeroGradDisturbsNothing) {
  expect_undisturbed(
      [](TrainedModule& module, FullyShardedModule&, int, int step) {
        module.zero_grad(/*set_to_none=*/step % 2 == 0);
      });
}

TEST(FullyShardedMisuse, EvaluationDisturbsNothing) {
  expect_undisturbed(
      [](TrainedModule& module, FullyShardedModule&, int rank, int step) {
        const at::NoGradGuard no_grad;
        module.loss(rank, 50 + step);
      });
}

TEST(FullyShardedMisuse, ALossThatIsDroppedDisturbsNothing) {
  expect_undisturbed(
      [](TrainedModule& module, FullyShardedModule&, int rank, int step) {
        module.loss(rank, 50 + step);
      });
}

TEST(FullyShardedMisuse, AForwardThatThrowsDisturbsNothing) {
  expect_undisturbed([](TrainedModule& module, FullyShardedModule&, int, int) {
    const at::Tensor weight = module.named_parameters()["layers.2.weight"];
    EXPECT_THROW(at::ones({5, 7}).mm(weight), c10::Error);
  });
}

TEST(FullyShardedMisuse, APlainBackwardIsAnErrorThatNamesTheOther) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    const FullyShardedModule sharded(*module, *world, kLayers);
    const at::Tensor loss = module->loss(world->rank(), 0);
    EXPECT_THAT([&] { torch::autograd::backward({loss}, {}); },
                ThrowsMessage<Error>(
                    HasSubstr("call FullyShardedModule::backward(loss)")));
  });
}

TEST(FullyShardedMisuse, ASecondOneIsRefusedAndTheFirstGoesOn) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, kLayers);
    EXPECT_THAT([&] { FullyShardedModule(*module, *world, kLayers); },
                ThrowsMessage<Error>(HasSubstr(
                    "is split by another FullyShardedModule; unshard()")));
    AdamW optimizer(sharded.optimized(), {});
    sharded.backward(module->loss(world->rank(), 0));
    EXPECT_GT(sharded.step(optimizer, {.lr = kLr}), 0.0);
    sharded.unshard();
    const FullyShardedModule next(*module, *world, kLayers);
  });
}

TEST(FullyShardedMisuse, ParametersThatAreGoneSaySo) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    {
      FullyShardedModule sharded(*module, *world, kLayers);
      module->loss(world->rank(), 0);
    }
    EXPECT_THAT([&] { module->loss(world->rank(), 0); },
                ThrowsMessage<c10::Error>(HasSubstr("call its unshard()")));
    EXPECT_THAT([&] { FullyShardedModule(*module, *world, kLayers); },
                ThrowsMessage<c10::Error>(HasSubstr("call its unshard()")));
  });
}

TEST(FullyShardedMisuse, WhatIsWrittenWithinGatherAllIsKept) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, kLayers);
    {
      const WholeParameters whole = sharded.gather_all();
      for (const at::Tensor& parameter : module->parameters()) {
        std::fill_n(parameter.data_ptr<float>(), parameter.numel(), 0.125F);
      }
    }
    expect_all(values_of(sharded, *module), 0.125);
    {
      const WholeParameters whole = sharded.gather_all();
      for (const at::Tensor& parameter : module->parameters()) {
        parameter.data().fill_(0.75);
      }
    }
    expect_all(values_of(sharded, *module), 0.75);
    {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& parameter : module->parameters()) {
        parameter.fill_(0.5);  // an operation: kept anywhere
      }
    }
    expect_all(values_of(sharded, *module), 0.5);
  });
}

class Odd : public torch::nn::Module {};

TEST(FullyShardedMisuse, ParametersInOneMemoryAreRefused) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    Odd views;
    const at::Tensor memory = at::ones({4, 3});
    views.register_parameter("first", memory);
    views.register_parameter("second", memory.detach().view({12}));
    EXPECT_THAT([&] { FullyShardedModule(views, *world); },
                ThrowsMessage<Error>(HasSubstr("share memory")));
    Odd expanded;
    expanded.register_parameter("wide", at::ones({1}).expand({6}));
    EXPECT_THAT([&] { FullyShardedModule(expanded, *world); },
                ThrowsMessage<Error>(HasSubstr("parameter wide has several")));
    Odd neighbours;  // in one storage, side by side
    const at::Tensor both = at::ones({8});
    neighbours.register_parameter("left", both.detach().narrow(0, 0, 4));
    neighbours.register_parameter("right", both.detach().narrow(0, 4, 4));
    neighbours.register_parameter("scalar", at::ones({}));
    neighbours.register_parameter("none", at::zeros({0, 5}));
    neighbours.register_parameter("turned", at::ones({3, 5}).t());
    FullyShardedModule sharded(neighbours, *world);
    expect_all({values_of(sharded, neighbours)[4]}, 1.0);
  });
}

}  // namespace
}  // namespace triax
