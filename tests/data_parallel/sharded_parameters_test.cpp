// SPDX-License-Identifier: Apache-2.0
#include "triax/data_parallel/sharded_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <functional>

#include "tests/support/run_ranks.h"
#include "triax/base/error.h"
#include "triax/memory/out_of_memory.h"
#include "triax/memory/tracker.h"

namespace triax {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kWidth = 24;

/// Layers y = sin(x Wᵀ + b), each a unit; backward finishes the last first.
struct Chain {
  explicit Chain(int num_layers) {
    for (int i = 0; i < num_layers; ++i) {
      const double start = 0.1 * (i + 1);
      weights.push_back(
          at::sin(at::arange(kWidth * kWidth, at::kDouble) * start)
              .view({kWidth, kWidth})
              .requires_grad_());
      biases.push_back(
          at::sin(at::arange(kWidth, at::kDouble) + start).requires_grad_());
    }
  }

  at::Tensor loss(double scale) const {
    at::Tensor x = at::ones({2, kWidth}, at::kDouble) * scale;
    for (size_t i = 0; i < weights.size(); ++i) {
      x = at::sin(at::linear(x, weights[i], biases[i]));
    }
    return x.sum();
  }

  int size() const { return static_cast<int>(weights.size()); }

  UnitLayout layout(int num_shards, int64_t bucket_numel = 1 << 20) const {
    std::vector<UnitParameter> parameters;
    for (int i = size() - 1; i >= 0; --i) {
      const std::string unit = "layer " + std::to_string(i);
      parameters.push_back({.numel = kWidth * kWidth, .unit = unit});
      parameters.push_back({.numel = kWidth, .unit = unit});
    }
    return make_unit_layout(parameters, bucket_numel, num_shards);
  }

  void shard(ShardedParameters& sharded) const {
    for (int i = 0; i < size(); ++i) {
      const int layer = size() - 1 - i;
      sharded.add(i, {weights[layer], biases[layer]});
    }
  }

  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;
};

/// Two microbatches.
double run_step(const Chain& chain, ShardedParameters* sharded) {
  double loss = 0;
  if (sharded != nullptr) {
    sharded->begin_pass();
  }
  for (const double scale : {1.0, 0.3}) {
    const at::Tensor value = chain.loss(scale);
    loss += value.item<double>();
    if (sharded != nullptr && scale < 1.0) {
      sharded->begin_last_backward();
    }
    torch::autograd::backward({value}, {});
  }
  if (sharded != nullptr) {
    sharded->end_pass();
    sharded->rethrow_failure();
  }
  return loss;
}

/// With a chain of 7 layers, sharded, on each of some ranks.
void run_sharded(
    int num_ranks,
    const ShardedParametersOptions& options,
    const std::function<void(const Chain&, ShardedParameters&, Group&)>& body) {
  run_ranks(num_ranks, [&](std::unique_ptr<Group> world) {
    const Chain chain(7);
    ShardedParameters sharded(
        chain.layout(num_ranks), at::kDouble, *world, options);
    chain.shard(sharded);
    body(chain, sharded, *world);
  });
}

TEST(ShardedParameters, GiveTheBitsOfWholeOnes) {
  const Chain whole(7);
  const double loss = run_step(whole, nullptr);
  for (const int num_ranks : {2, 3, 4}) {
    for (const int prefetch : {0, 1, 2, 64}) {
      for (const bool reshards : {true, false}) {
        run_sharded(
            num_ranks,
            {.prefetch = prefetch, .reshard_after_forward = reshards},
            [&](const Chain& chain, ShardedParameters& sharded, Group&) {
              for (int step = 0; step < 3; ++step) {
                EXPECT_EQ(run_step(chain, &sharded), loss);
                for (int i = 0; i < chain.size(); ++i) {
                  EXPECT_TRUE(at::equal(chain.weights[i].grad(),
                                        whole.weights[i].grad()));
                  EXPECT_TRUE(at::equal(chain.biases[i].grad(),
                                        whole.biases[i].grad()));
                  chain.weights[i].mutable_grad() = at::Tensor();
                  chain.biases[i].mutable_grad() = at::Tensor();
                }
              }
            });
      }
    }
  }
}

TEST(ShardedParameters, HoldAShardAndSoManyUnits) {
  for (const int prefetch : {0, 1, 2}) {
    run_sharded(2,
                {.prefetch = prefetch},
                [&](const Chain& chain, ShardedParameters& sharded, Group&) {
                  for (int step = 0; step < 3; ++step) {
                    run_step(chain, &sharded);
                  }
                  EXPECT_EQ(sharded.nbytes(), sharded.layout().numel() / 2 * 8);
                  EXPECT_EQ(sharded.most_gathered_bytes(),
                            most_gathered(sharded.layout(), prefetch) * 8);
                  const MemoryUse use = this_rank_memory().use();
                  EXPECT_EQ(use.largest[MemoryCategory::kParameters],
                            sharded.nbytes() + sharded.most_gathered_bytes());
                  EXPECT_EQ(use.current[MemoryCategory::kParameters],
                            sharded.nbytes());
                });
  }
  run_sharded(2,
              {.reshard_after_forward = false},
              [&](const Chain& chain, ShardedParameters& sharded, Group&) {
                run_step(chain, &sharded);
                EXPECT_EQ(sharded.most_gathered_bytes(),
                          sharded.layout().numel() * 8);
              });
}

TEST(ShardedParameters, BringWhatTheirOwnersWrote) {
  run_sharded(
      3, {}, [](const Chain& chain, ShardedParameters& sharded, Group& world) {
        for (size_t i = 0; i < sharded.layout().flat.parameters.size(); ++i) {
          const int parameter = static_cast<int>(i);
          const Range mine =
              owned_elements(sharded.layout().flat, parameter, world.rank());
          sharded.owned(parameter, mine).fill_(static_cast<double>(i + 1));
        }
        // Laid out from the last layer on, weight and bias by turns.
        EXPECT_EQ(chain.weights[6].min().item<double>(), 1.0);
        EXPECT_EQ(chain.weights[6].max().item<double>(), 1.0);
        EXPECT_EQ(chain.biases[0].min().item<double>(), 14.0);
        EXPECT_EQ(chain.biases[0].max().item<double>(), 14.0);
      });
}

TEST(ShardedParameters, KeepWhatOperationsWrote) {
  run_sharded(2, {}, [](const Chain& chain, ShardedParameters&, Group&) {
    {
      const at::NoGradGuard no_grad;
      chain.weights[3].fill_(5.0);
      chain.weights[2].detach().view({-1})[7] = 6.0;
      chain.biases[2].copy_(chain.biases[3]);
    }
    chain.weights[0].sum();
    EXPECT_EQ(chain.weights[3].sum().item<double>(), 5.0 * kWidth * kWidth);
    EXPECT_EQ(chain.weights[2][0][7].item<double>(), 6.0);
    EXPECT_TRUE(at::equal(chain.biases[2], chain.biases[3]));
  });
}

TEST(ShardedParameters, AnOperationMayUseSeveralUnits) {
  run_sharded(
      2, {}, [](const Chain& chain, ShardedParameters& sharded, Group&) {
        const Chain whole(7);
        const auto expected = at::stack(whole.biases).sin().sum();
        EXPECT_TRUE(at::equal(at::stack(chain.biases).sin().sum(), expected));
        chain.weights[0].sum();
        EXPECT_EQ(sharded.most_gathered_bytes(), sharded.layout().numel() * 8);
      });
}

/// Consists of an operation on one tensor, and reads the other afterwards.
at::Tensor uses_both(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor negative = a.neg();
  return negative + *b.const_data_ptr<double>();
}

TORCH_LIBRARY(triax_sharded_parameters_test, library) {
  library.def("uses_both(Tensor a, Tensor b) -> Tensor", &uses_both);
}

TEST(ShardedParameters, WhatAnOperationUsesStaysUntilItsEnd) {
  run_sharded(2, {}, [](const Chain& chain, ShardedParameters&, Group&) {
    const auto uses =
        c10::Dispatcher::singleton()
            .findSchemaOrThrow("triax_sharded_parameters_test::uses_both", "")
            .typed<decltype(uses_both)>();
    const Chain whole(7);
    EXPECT_TRUE(at::equal(uses.call(chain.weights[2], chain.weights[5]),
                          uses_both(whole.weights[2], whole.weights[5])));
  });
}

TEST(ShardedParameters, OutsideOfOperationsTheyAreAnError) {
  run_sharded(
      2, {}, [](const Chain& chain, ShardedParameters& sharded, Group&) {
        const at::Tensor view = chain.weights[4].detach();
        chain.weights[0].sum();
        EXPECT_THAT([&] { static_cast<void>(view.data_ptr()); },
                    ThrowsMessage<c10::Error>(
                        HasSubstr("the parameters of layer 4 are")));
        sharded.gather_all();
        const Chain whole(7);
        EXPECT_EQ(static_cast<const double*>(view.data_ptr())[0],
                  whole.weights[4][0][0].item<double>());
        sharded.release_all();
        EXPECT_THROW(static_cast<void>(view.data_ptr()), c10::Error);
      });
}

TEST(ShardedParameters, AHeldUnitStaysWhatItWas) {
  run_sharded(
      2, {}, [](const Chain& chain, ShardedParameters& sharded, Group& world) {
        sharded.hold(0);
        for (const int parameter : {0, 2}) {
          sharded
              .owned(parameter,
                     owned_elements(
                         sharded.layout().flat, parameter, world.rank()))
              .fill_(9.0);
        }
        const Chain whole(7);
        EXPECT_TRUE(at::equal(chain.weights[6], whole.weights[6]));
        EXPECT_EQ(chain.weights[5].min().item<double>(), 9.0);
      });
}

// Each rank skips another layer: as many units of one size, in another order.
TEST(ShardedParameters, NameReplicasThatUseOtherUnits) {
  EXPECT_THAT(
      [] {
        run_sharded(
            2,
            {},
            [](const Chain& chain, ShardedParameters& sharded, Group& world) {
              sharded.begin_pass();
              for (int i = 0; i < chain.size(); ++i) {
                if (i != 2 + world.rank()) {
                  chain.weights[i].sum();
                }
              }
              sharded.end_pass();
            });
      },
      ThrowsMessage<Error>(HasSubstr("rank 0 used layer 3 where rank 1 used "
                                     "layer 2 (use 3 of this pass)")));
}

TEST(ShardedParameters, NameAReplicaThatUsesFewerUnits) {
  EXPECT_THAT(
      [] {
        run_sharded(
            2,
            {},
            [](const Chain& chain, ShardedParameters& sharded, Group& world) {
              sharded.begin_pass();
              try {
                for (int i = 0; i < chain.size() - world.rank(); ++i) {
                  chain.weights[i].sum();
                }
              } catch (const std::exception&) {
                sharded.rethrow_failure();  // the operation's cause
                throw;
              }
              sharded.end_pass();
            });
      },
      testing::Throws<Error>());
}

// A pass that goes another way than the last one is right, and slower.
TEST(ShardedParameters, MayBeUsedInAnyOrder) {
  run_sharded(
      2,
      {.prefetch = 2},
      [](const Chain& chain, ShardedParameters& sharded, Group&) {
        const Chain whole(7);
        for (int step = 0; step < 7; ++step) {
          sharded.begin_pass();
          for (int i = 0; i < 12; ++i) {
            const int layer = (i * (step % 3 + 1) + step) % 7;
            EXPECT_TRUE(at::equal(chain.weights[layer], whole.weights[layer]));
          }
          sharded.end_pass();
        }
        EXPECT_LE(sharded.most_gathered_bytes(),
                  3 * sharded.layout().units[0].range.length * 8);
      });
}

// The thing that went wrong is thrown, not what came of it in an operation.
TEST(ShardedParameters, TellWhyAUnitCouldNotBeGathered) {
  run_sharded(
      2, {}, [](const Chain& chain, ShardedParameters& sharded, Group& world) {
        MemoryTracker& memory = this_rank_memory();
        memory.set_limit(1);
        EXPECT_ANY_THROW(chain.weights[2].sum());
        EXPECT_THROW(sharded.rethrow_failure(), OutOfMemory);
        memory.set_limit(0);
        sharded.rethrow_failure();  // once
        world.barrier();
        EXPECT_EQ(chain.weights[2].sizes().size(), 2);
      });
}

TEST(ShardedParameters, TellWhichRankFailed) {
  EXPECT_THAT(
      [] {
        run_sharded(
            2,
            {},
            [](const Chain& chain, ShardedParameters& sharded, Group& world) {
              if (world.rank() == 1) {
                throw Error("the disk is full");
              }
              EXPECT_THROW(chain.loss(1.0), c10::Error);
              EXPECT_THAT([&] { sharded.rethrow_failure(); },
                          ThrowsMessage<Error>(HasSubstr("the disk is full")));
            });
      },
      ThrowsMessage<Error>(HasSubstr("the disk is full")));
}

// Parameters smaller than the group, empty ones, and a rank that owns nothing.
TEST(ShardedParameters, MayBeSmallerThanTheGroup) {
  run_ranks(4, [](std::unique_ptr<Group> world) {
    const std::vector<int64_t> numels = {1, 0, 65, 3};
    std::vector<UnitParameter> list;
    std::vector<at::Tensor> parameters;
    for (const int64_t numel : numels) {
      list.push_back({.numel = numel, .unit = std::to_string(list.size())});
      parameters.push_back(at::arange(numel, at::kFloat).requires_grad_());
    }
    ShardedParameters sharded(
        make_unit_layout(list, 1, 4), at::kFloat, *world, {});
    for (size_t i = 0; i < numels.size(); ++i) {
      sharded.add(static_cast<int>(i), {parameters[i]});
    }
    for (const at::Tensor& parameter : parameters) {
      EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
      EXPECT_TRUE(
          at::equal(parameter, at::arange(parameter.numel(), at::kFloat)));
    }
    EXPECT_EQ(sharded.nbytes(), sharded.layout().numel() / 4 * 4);
  });
}

}  // namespace
}  // namespace triax
