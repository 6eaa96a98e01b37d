// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/fully_sharded_module.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <map>

#include "tests/support/module_kinds.h"
#include "tests/support/run_ranks.h"
#include "tests/support/tensors.h"
#include "triax/base/error.h"
#include "triax/data_parallel/bucket.h"
#include "triax/data_parallel/grad_norm.h"
#include "triax/data_parallel/module_units.h"
#include "triax/mesh/tensor_group.h"

namespace triax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kSteps = 3;
constexpr double kLr = 1e-2;
constexpr double kMaxNorm = 0.5;

/// What training a module gave on one rank.
struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
};

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& tensor : tensors) {
    out.push_back(tensor.detach().clone());
  }
  return out;
}

/// The bytes of the `count` largest.
int64_t largest_units(const FullyShardedModule& sharded, size_t count) {
  std::vector<int64_t> sizes;
  for (const ShardedUnit& unit : sharded.units()) {
    sizes.push_back(unit.nbytes);
  }
  std::sort(sizes.rbegin(), sizes.rend());
  int64_t sum = 0;
  for (size_t i = 0; i < std::min(count, sizes.size()); ++i) {
    sum += sizes[i];
  }
  return sum;
}

/// Whole gradients, all-reduced: a buffer for each dtype.
class PlainReplica {
 public:
  PlainReplica(torch::nn::Module& module, Group& world) : groups_(world) {
    std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
    for (const ModuleUnit& unit : units_of_module(module, {})) {
      for (const ModuleParameter& parameter : unit.parameters) {
        if (parameter.tensor.requires_grad()) {
          by_dtype[parameter.tensor.scalar_type()].push_back(parameter.tensor);
        }
      }
    }
    std::vector<OptimizedTensor> optimized;
    for (const auto& [dtype, parameters] : by_dtype) {
      buffers_.push_back(std::make_unique<FlatBuffer>(parameters));
      reducers_.push_back(
          std::make_unique<BucketReducer>(*buffers_.back(), groups_));
      for (int i = 0; i < buffers_.back()->num_parameters(); ++i) {
        optimized.push_back(
            {.parameter = parameters[i].detach().view({-1}),
             .gradient = buffers_.back()->gradient(i).view({-1})});
      }
    }
    optimizer_ = std::make_unique<AdamW>(optimized, AdamW::Options{});
  }

  double step(const std::vector<std::function<at::Tensor()>>& losses) {
    for (const auto& buffer : buffers_) {
      buffer->zero();
    }
    for (size_t i = 0; i < losses.size(); ++i) {
      const at::Tensor loss = losses[i]();
      if (i + 1 == losses.size()) {
        for (const auto& reducer : reducers_) {
          reducer->prepare();
        }
      }
      torch::autograd::backward({loss}, {});
    }
    ExactSum squares;
    for (const auto& reducer : reducers_) {
      reducer->finish();
    }
    for (const auto& buffer : buffers_) {
      for (int i = 0; i < buffer->num_parameters(); ++i) {
        const at::Tensor gradient = buffer->gradient(i).view({-1});
        add_owned_squares(squares, gradient, {0, gradient.numel()}, {});
      }
    }
    const double norm = std::sqrt(squares.value());
    optimizer_->step(kLr, clip_factor(norm, kMaxNorm));
    return norm;
  }

 private:
  ReplicaGroups groups_;
  std::vector<std::unique_ptr<FlatBuffer>> buffers_;
  std::vector<std::unique_ptr<BucketReducer>> reducers_;
  std::unique_ptr<AdamW> optimizer_;
};

Trained train_plain(const std::string& kind, Group& world) {
  const auto module = make_module(kind);
  PlainReplica replica(*module, world);
  Trained out;
  for (int step = 0; step < kSteps; ++step) {
    out.norms.push_back(replica.step({[&] {
      const at::Tensor loss = module->loss(world.rank(), step);
      out.losses.push_back(loss.item<double>());
      return loss;
    }}));
  }
  out.parameters = copies(module->parameters());
  out.buffers = copies(module->buffers());
  return out;
}

Trained train_sharded(const std::string& kind,
                      Group& world,
                      int prefetch = 1,
                      int64_t bucket_numel = 1 << 20) {
  const auto module = make_module(kind);
  FullyShardedModule sharded(*module,
                             world,
                             {.units = unit_patterns(kind),
                              .prefetch = prefetch,
                              .bucket_numel = bucket_numel});
  AdamW optimizer(sharded.optimized(), {});
  Trained out;
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = module->loss(world.rank(), step);
    out.losses.push_back(loss.item<double>());
    sharded.backward(loss);
    out.norms.push_back(
        sharded.step(optimizer, {.lr = kLr, .max_norm = kMaxNorm}));
  }
  const WholeParameters whole = sharded.gather_all();
  out.parameters = copies(module->parameters());
  out.buffers = copies(module->buffers());
  return out;
}

void expect_equal_bits(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    EXPECT_TRUE(bits_equal(a.parameters[i], b.parameters[i])) << i;
  }
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    EXPECT_TRUE(bits_equal(a.buffers[i], b.buffers[i])) << i;
  }
}

class FullySharded
    : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(FullySharded, TrainsBitForBitWhatPlainReplicasTrain) {
  const auto& [kind, world_size] = GetParam();
  run_ranks(world_size, [&](std::unique_ptr<Group> world) {
    const Trained plain = train_plain(kind, *world);
    expect_equal_bits(train_sharded(kind, *world), plain);
    expect_equal_bits(train_sharded(kind, *world, 0, 1), plain);
  });
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const ModuleKind& kind : module_kinds()) {
    names.push_back(kind.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         FullySharded,
                         testing::Combine(testing::ValuesIn(kind_names()),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_dp" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(FullyShardedModule, GathersAtMostOneUnitAndThosePrefetched) {
  for (const int prefetch : {0, 1, 2}) {
    run_ranks(2, [&](std::unique_ptr<Group> world) {
      const auto module = make_module("stack");
      FullyShardedModule sharded(
          *module, *world, {.units = {"layers.*"}, .prefetch = prefetch});
      ASSERT_EQ(sharded.units().size(), 7u);
      AdamW optimizer(sharded.optimized(), {});
      for (int step = 0; step < 3; ++step) {
        sharded.backward(module->loss(world->rank(), step));
        sharded.step(optimizer, {.lr = kLr});
      }
      EXPECT_LE(sharded.most_gathered_bytes(),
                largest_units(sharded, static_cast<size_t>(prefetch) + 1));
      EXPECT_GT(sharded.most_gathered_bytes(),
                largest_units(sharded, static_cast<size_t>(prefetch)));
    });
  }
}

TEST(FullyShardedModule, KeepsOneShardOfEverything) {
  run_ranks(4, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    const FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    int64_t whole = 0;
    for (const ShardedUnit& unit : sharded.units()) {
      whole += unit.nbytes;
    }
    EXPECT_EQ(sharded.shard_bytes(), 2 * whole / 4);
  });
}

// Microbatches are summed after the replicas, so bits differ, but no more.
TEST(FullyShardedModule, AddsUpSeveralBackwards) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto plain = make_module("stack");
    PlainReplica replica(*plain, *world);
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    for (int step = 0; step < 2; ++step) {
      const double norm =
          replica.step({[&] { return plain->loss(world->rank(), step); },
                        [&] { return plain->loss(world->rank(), 10 + step); }});
      sharded.backward(module->loss(world->rank(), step));
      sharded.backward(module->loss(world->rank(), 10 + step));
      EXPECT_NEAR(sharded.step(optimizer, {.lr = kLr, .max_norm = kMaxNorm}),
                  norm,
                  1e-4 * norm);
    }
  });
}

TEST(FullyShardedModule, IsRightUnderAutocast) {
  struct Autocast {
    Autocast() {
      at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
      at::autocast::set_autocast_enabled(at::kCPU, true);
    }
    ~Autocast() {
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
    }
  };
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto plain = make_module("stack");
    PlainReplica replica(*plain, *world);
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    for (int step = 0; step < kSteps; ++step) {
      const auto loss_of = [&](TrainedModule& of) {
        const Autocast autocast;
        return of.loss(world->rank(), step);
      };
      const double norm = replica.step({[&] { return loss_of(*plain); }});
      sharded.backward(loss_of(*module));
      EXPECT_EQ(sharded.step(optimizer, {.lr = kLr, .max_norm = kMaxNorm}),
                norm);
    }
    // Copies of bf16, of one unit at a time.
    EXPECT_GT(sharded.most_cast_bytes(), 0);
    EXPECT_LE(sharded.most_cast_bytes(), largest_units(sharded, 1) / 2);
  });
}

TEST(FullyShardedModule, AllRanksBeginWithTheFirstOnes) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("convolutions");
    const std::vector<at::Tensor> expected = copies(module->parameters());
    if (world->rank() == 1) {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& parameter : module->parameters()) {
        parameter.fill_(5.0);
      }
      module->buffers()[0].fill_(3.0);
    }
    FullyShardedModule sharded(*module, *world, {.units = {"features.*"}});
    const WholeParameters whole = sharded.gather_all();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bits_equal(module->parameters()[i], expected[i])) << i;
    }
    EXPECT_EQ(module->buffers()[0].sum().item<double>(), 0.0);
  });
}

TEST(FullyShardedModule, ParametersAreThereWithinGatherAllOnly) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    const at::Tensor weight = module->named_parameters()["layers.0.weight"];
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    EXPECT_EQ(weight.size(0), 20);
    try {
      weight.data_ptr();
      ADD_FAILURE() << "it is there";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("layers.0"));
      EXPECT_THAT(error.what(), HasSubstr("gather_all()"));
    }
    {
      const WholeParameters whole = sharded.gather_all();
      EXPECT_NE(weight.const_data_ptr<float>()[3], 0.0f);
      weight.detach().fill_(2.0);  // kept
    }
    EXPECT_ANY_THROW(weight.data_ptr());
    EXPECT_EQ(weight.sum().item<double>(), 800.0);
  });
}

TEST(FullyShardedModule, GivesTheModuleBack) {
  run_ranks(3, [](std::unique_ptr<Group> world) {
    const auto module = make_module("tied");
    const std::vector<at::Tensor> expected = copies(module->parameters());
    FullyShardedModule sharded(*module, *world, {.units = {"middle"}});
    sharded.unshard();
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bits_equal(module->parameters()[i], expected[i])) << i;
      EXPECT_NE(module->parameters()[i].data_ptr(), nullptr);
    }
    EXPECT_THROW(sharded.backward(expected[0].sum()), Error);
    torch::autograd::backward({module->loss(0, 0)}, {});
  });
}

TEST(FullyShardedModule, AnInfiniteGradientChangesNothing) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    const std::vector<at::Tensor> expected = copies(module->parameters());
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    sharded.backward(
        module->loss(world->rank(), 0) *
        (world->rank() == 1 ? std::numeric_limits<double>::infinity() : 1.0));
    EXPECT_THROW(sharded.step(optimizer, {.lr = kLr}), Error);
    EXPECT_EQ(optimizer.num_steps(), 0);
    {
      const WholeParameters whole = sharded.gather_all();
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(bits_equal(module->parameters()[i], expected[i])) << i;
      }
    }
    sharded.backward(module->loss(world->rank(), 0));
    EXPECT_GT(sharded.step(optimizer, {.lr = kLr}), 0.0);
  });
}

TEST(FullyShardedModule, ALossFromBeforeAStepIsAnError) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    const at::Tensor loss = module->loss(world->rank(), 0);
    sharded.step(optimizer, {.lr = kLr});
    try {
      sharded.backward(loss);
      ADD_FAILURE() << "it goes backward";
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("modified by an inplace operation"));
    }
  });
}

// Half of the gradients are added then, on a user's own ranks differently.
TEST(FullyShardedModule, ABackwardThatThrewIsTheLast) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    const at::Tensor loss = module->loss(world->rank(), 0);
    loss.register_hook(
        [](const at::Tensor&) { throw Error("broken on purpose"); });
    EXPECT_THROW(sharded.backward(loss), Error);
    for (const bool is_step : {false, true}) {
      try {
        is_step ? void(sharded.step(optimizer, {.lr = kLr}))
                : sharded.backward(module->loss(world->rank(), 1));
        ADD_FAILURE() << "it goes on";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("has thrown (broken on purpose)"));
      }
    }
  });
}

TEST(FullyShardedModule, AModuleWithoutParametersIsNoTrouble) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    torch::nn::Module module;
    FullyShardedModule sharded(module, *world);
    EXPECT_TRUE(sharded.units().empty());
    AdamW optimizer(sharded.optimized(), {});
    EXPECT_EQ(sharded.step(optimizer, {.lr = kLr}), 0.0);
    const WholeParameters whole = sharded.gather_all();
  });
}

TEST(FullyShardedModule, AnErrorOfOneRankEndsTheOthersForward) {
  std::string text;
  std::promise<void> is_made;  // by rank 0, which no error may reach before
  EXPECT_THROW(run_ranks(2,
                         [&](std::unique_ptr<Group> world) {
                           const auto module = make_module("stack");
                           FullyShardedModule sharded(
                               *module, *world, {.units = {"layers.*"}});
                           if (world->rank() == 1) {
                             is_made.get_future().wait();
                             throw Error("this rank stops here");
                           }
                           is_made.set_value();
                           try {
                             module->loss(0, 0);
                           } catch (const std::exception& error) {
                             text = error.what();
                             throw;
                           }
                         }),
               std::exception);
  EXPECT_THAT(text, HasSubstr("this rank stops here"));
}

// Its parameters would be put back over the update.
TEST(FullyShardedModule, NoStepIsMadeWhileParametersAreWhole) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    sharded.backward(module->loss(0, 0));
    {
      const WholeParameters whole = sharded.gather_all();
      EXPECT_THAT([&] { sharded.step(optimizer, {.lr = kLr}); },
                  testing::ThrowsMessage<Error>(HasSubstr("gather_all()")));
    }
    sharded.step(optimizer, {.lr = kLr});
  });
}

TEST(FullyShardedModule, DifferentOrdersAreAnError) {
  EXPECT_THROW(run_ranks(2,
                         [](std::unique_ptr<Group> world) {
                           const auto module = make_module("stack");
                           FullyShardedModule sharded(
                               *module, *world, {.units = {"layers.*"}});
                           AdamW optimizer(sharded.optimized(), {});
                           const int mine = world->rank();
                           const std::vector<at::Tensor> weights = {
                               module->named_parameters()["layers.0.weight"],
                               module->named_parameters()["layers.1.weight"]};
                           sharded.backward(weights[mine].sum() +
                                            weights[1 - mine].square().sum());
                           sharded.step(optimizer, {.lr = kLr});
                         }),
               Error);
}

TEST(FullyShardedModule, OtherMemoryIsAnError) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    AdamW optimizer(sharded.optimized(), {});
    module->to(at::kDouble);
    try {
      sharded.step(optimizer, {.lr = kLr});
      ADD_FAILURE() << "it goes on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("got other memory"));
    }
  });
}

TEST(FullyShardedModule, AnOptimizerOfOtherTensorsIsAnError) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    std::vector<OptimizedTensor> tensors = sharded.optimized();
    tensors.pop_back();
    AdamW optimizer(tensors, {});
    try {
      sharded.step(optimizer, {.lr = kLr});
      ADD_FAILURE() << "it goes on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("the optimizer does not update "));
    }
  });
}

TEST(FullyShardedModule, RefusesWhatItCannotTrain) {
  run_ranks(1, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    EXPECT_THROW(FullyShardedModule(*module, *world, {.prefetch = -1}), Error);
    module->to(at::kBFloat16);
    try {
      const FullyShardedModule sharded(*module, *world);
      ADD_FAILURE() << "it shards bf16";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("are fp32 or fp64"));
    }
  });
}

TEST(FullyShardedModule, SetsWhatTheCallerWantsByPath) {
  run_ranks(2, [](std::unique_ptr<Group> world) {
    const auto module = make_module("stack");
    FullyShardedModule sharded(*module, *world, {.units = {"layers.*"}});
    const auto tensors =
        sharded.optimized([](const std::string& path, OptimizedTensor& tensor) {
          tensor.weight_decay = path.ends_with(".weight") ? 0.1 : 0.0;
        });
    int64_t decayed = 0;
    for (const OptimizedTensor& tensor : tensors) {
      decayed += tensor.weight_decay > 0.0 ? tensor.parameter.numel() : 0;
    }
    EXPECT_EQ(sum_over(*world, static_cast<double>(decayed)), 6 * 400 + 60);
  });
}

TEST(UnitsOfModule, AreWhatThePatternsFit) {
  const auto module = make_module("encoder");
  const auto names = [&](const std::vector<std::string>& patterns) {
    std::vector<std::string> out;
    for (const ModuleUnit& unit : units_of_module(*module, patterns)) {
      out.push_back(unit.name);
    }
    return out;
  };
  EXPECT_THAT(names({}), ElementsAre(kRootUnit));
  EXPECT_THAT(names({"encoder.layers.*"}),
              ElementsAre("encoder.layers.0",
                          "encoder.layers.1",
                          "encoder.layers.2",
                          kRootUnit));
  EXPECT_THAT(names({"encoder", "norm"}), ElementsAre("encoder", "norm"));
  EXPECT_THAT(names({"encoder", "*.self_attn", "norm"}),
              ElementsAre("encoder",
                          "encoder.layers.0.self_attn",
                          "encoder.layers.1.self_attn",
                          "encoder.layers.2.self_attn",
                          "norm"));
}

TEST(UnitsOfModule, HoldEachParameterOnce) {
  const auto module = make_module("tied");
  const auto units = units_of_module(*module, {"embedding", "head", "middle"});
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].name, "embedding");
  ASSERT_EQ(units[0].parameters.size(), 1u);
  EXPECT_EQ(units[0].parameters[0].path, "embedding.weight");
  EXPECT_EQ(units[1].parameters.size(), 2u);
}

TEST(UnitsOfModule, APatternThatFitsNothingIsAnError) {
  const auto module = make_module("stack");
  try {
    units_of_module(*module, {"layer.*"});
    FAIL() << "it fits";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"layer.*\""));
    EXPECT_THAT(error.what(), HasSubstr("layers, layers.0, layers.1"));
  }
}

}  // namespace
}  // namespace triax
