// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/optimizer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "triax/base/error.h"

namespace triax {
namespace {

using testing::HasSubstr;

// Numbers without pattern, the same in every run.
at::Tensor make_tensor(int64_t numel,
                       double seed,
                       at::ScalarType type = at::kDouble) {
  return at::sin(at::linspace(seed,
                              seed + 0.37 * static_cast<double>(numel),
                              numel,
                              at::kDouble))
      .to(type);
}

// One element of AdamW as its paper and PyTorch's documentation have it.
struct ScalarAdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double parameter = 0.0;
  double first = 0.0;
  double second = 0.0;
  int64_t count = 0;

  void step(double lr, double decay, double gradient) {
    ++count;
    parameter -= lr * decay * parameter;
    first = beta1 * first + (1.0 - beta1) * gradient;
    second = beta2 * second + (1.0 - beta2) * gradient * gradient;
    const double first_hat = first / (1.0 - std::pow(beta1, count));
    const double second_hat = second / (1.0 - std::pow(beta2, count));
    parameter -= lr * first_hat / (std::sqrt(second_hat) + eps);
  }
};

AdamW make_adamw(std::vector<OptimizedTensor> tensors) {
  return AdamW(std::move(tensors), {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8});
}

TEST(AdamW, EqualsTheFormulaElementByElement) {
  const at::Tensor parameter = make_tensor(37, 1.0);
  const at::Tensor gradient = at::zeros({37}, at::kDouble);
  std::vector<ScalarAdamW> expected(37);
  for (int64_t i = 0; i < 37; ++i) {
    expected[i].parameter = parameter[i].item<double>();
  }
  AdamW optimizer(
      {{.parameter = parameter, .gradient = gradient, .weight_decay = 0.1}},
      {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8});
  for (int step = 0; step < 5; ++step) {
    gradient.copy_(make_tensor(37, 2.0 + step));
    const double lr = 0.01 * (step + 1);
    for (int64_t i = 0; i < 37; ++i) {
      expected[i].step(lr, 0.1, gradient[i].item<double>());
    }
    optimizer.step(lr);
  }
  EXPECT_EQ(optimizer.num_steps(), 5);
  for (int64_t i = 0; i < 37; ++i) {
    EXPECT_NEAR(parameter[i].item<double>(), expected[i].parameter, 1e-14);
  }
}

// By hand: m = 0.1 g, v = 0.05 g², both bias corrections undo that, so the
// first update moves by lr against the sign, after the decay.
TEST(AdamW, FirstStepIsTheRateAgainstTheSign) {
  const at::Tensor parameter = at::full({2}, 3.0, at::kDouble);
  const at::Tensor gradient = at::zeros({2}, at::kDouble);
  gradient[0] = 5.0;
  gradient[1] = -0.01;
  AdamW optimizer(
      {{.parameter = parameter, .gradient = gradient, .weight_decay = 0.5}},
      {.beta1 = 0.9, .beta2 = 0.95, .eps = 0.0});
  optimizer.step(0.1);
  EXPECT_NEAR(parameter[0].item<double>(), 3.0 * 0.95 - 0.1, 1e-14);
  EXPECT_NEAR(parameter[1].item<double>(), 3.0 * 0.95 + 0.1, 1e-14);
}

TEST(AdamW, EachTensorHasItsOwnRateAndDecay) {
  struct Case {
    double lr_scale;
    double decay;
    at::ScalarType type;
  };
  const std::vector<Case> cases = {{1.0, 0.1, at::kDouble},
                                   {0.1, 0.1, at::kDouble},
                                   {1.0, 0.0, at::kDouble},
                                   {1.0, 0.1, at::kFloat},
                                   {0.1, 0.1, at::kDouble}};
  std::vector<OptimizedTensor> together;
  for (size_t i = 0; i < cases.size(); ++i) {
    const double seed = static_cast<double>(i);
    together.push_back({make_tensor(70, seed, cases[i].type),
                        make_tensor(70, seed + 9.0, cases[i].type),
                        cases[i].lr_scale,
                        cases[i].decay});
  }
  AdamW optimizer = make_adamw(together);
  optimizer.step(0.05);
  optimizer.step(0.02);
  for (size_t i = 0; i < cases.size(); ++i) {
    const double seed = static_cast<double>(i);
    OptimizedTensor alone = {make_tensor(70, seed, cases[i].type),
                             make_tensor(70, seed + 9.0, cases[i].type),
                             1.0,
                             cases[i].decay};
    AdamW single = make_adamw({alone});
    single.step(0.05 * cases[i].lr_scale);
    single.step(0.02 * cases[i].lr_scale);
    EXPECT_TRUE(at::equal(alone.parameter, together[i].parameter)) << i;
  }
}

TEST(AdamW, TheGradientScaleMultiplies) {
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    OptimizedTensor scaled = {make_tensor(100, 1.0, type),
                              make_tensor(100, 2.0, type)};
    OptimizedTensor before = {make_tensor(100, 1.0, type),
                              make_tensor(100, 2.0, type) * 0.3};
    AdamW optimizer = make_adamw({scaled});
    AdamW expected = make_adamw({before});
    optimizer.step(0.1, 0.3);
    expected.step(0.1);
    // The second moment, not the weight: the first step hides the scale.
    EXPECT_TRUE(
        at::equal(optimizer.states()[1].tensor, expected.states()[1].tensor));
    EXPECT_TRUE(at::equal(scaled.parameter, before.parameter));
  }
}

// ZeRO relies on it: a shard's update has the bits of the whole buffer's.
TEST(AdamW, SlicesAtMultiplesOf64HaveTheBitsOfTheWhole) {
  for (at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (int64_t numel : {640, 64 * 1021}) {
      const at::Tensor gradient = make_tensor(numel, 2.0, type);
      OptimizedTensor whole = {
          make_tensor(numel, 1.0, type), gradient.clone(), 1.0, 0.1};
      const at::Tensor buffer = make_tensor(numel, 1.0, type);
      std::vector<OptimizedTensor> slices;
      for (int64_t start = 0, length = 64; start < numel; length *= 2) {
        const int64_t part = std::min(length, numel - start);
        slices.push_back({buffer.narrow(0, start, part),
                          gradient.narrow(0, start, part),
                          1.0,
                          0.1});
        start += part;
      }
      AdamW one = make_adamw({whole});
      AdamW many = make_adamw(slices);
      for (int step = 0; step < 4; ++step) {
        one.step(0.01);
        many.step(0.01);
      }
      EXPECT_TRUE(at::equal(whole.parameter, buffer)) << numel;
    }
  }
}

// Why the contract names 64 elements. Not a demand: on some machines the
// scalar tail may round like the vectors.
TEST(AdamW, RecordsHowAnUnalignedTailDiffers) {
  int64_t num_different = 0;
  for (int64_t i = 0; i < 400; ++i) {
    OptimizedTensor whole = {make_tensor(400, 1.0, at::kFloat),
                             make_tensor(400, 2.0, at::kFloat)};
    OptimizedTensor single = {whole.parameter.narrow(0, i, 1).clone(),
                              whole.gradient.narrow(0, i, 1).clone()};
    AdamW a = make_adamw({whole});
    AdamW b = make_adamw({single});
    for (int step = 0; step < 3; ++step) {
      a.step(0.01);
      b.step(0.01);
    }
    const float second = a.states()[1].tensor[i].item<float>();
    const float lone = b.states()[1].tensor[0].item<float>();
    EXPECT_NEAR(second, lone, 1e-6f * second);
    num_different += second == lone ? 0 : 1;
  }
  RecordProperty("different_second_moments_of_400",
                 static_cast<int>(num_different));
}

TEST(AdamW, ContinuesFromItsState) {
  OptimizedTensor unbroken = {make_tensor(90, 1.0), make_tensor(90, 2.0)};
  AdamW first = make_adamw({unbroken});
  first.step(0.1);
  first.step(0.1);
  OptimizedTensor resumed = {unbroken.parameter.clone(),
                             unbroken.gradient.clone()};
  AdamW second = make_adamw({resumed});
  second.set_num_steps(first.num_steps());
  const auto from = first.states();
  const auto to = second.states();
  ASSERT_EQ(from.size(), 2u);
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(from[i].name, to[i].name);
    to[i].tensor.copy_(from[i].tensor);
  }
  first.step(0.1);
  second.step(0.1);
  EXPECT_TRUE(at::equal(unbroken.parameter, resumed.parameter));
}

TEST(AdamW, OwnsTwoElementsPerElementAndAcceptsEmptyTensors) {
  AdamW optimizer = make_adamw(
      {{make_tensor(0, 1.0), make_tensor(0, 1.0)},
       {make_tensor(10, 1.0), make_tensor(10, 1.0)},
       {make_tensor(7, 1.0, at::kFloat), make_tensor(7, 1.0, at::kFloat)}});
  EXPECT_EQ(optimizer.state_bytes(), 2 * (10 * 8 + 7 * 4));
  optimizer.step(0.1);
  AdamW nothing = make_adamw({});
  nothing.step(0.1);
  EXPECT_EQ(nothing.state_bytes(), 0);
}

// A parameter that requires a gradient and is a view of a flat buffer.
TEST(AdamW, UpdatesLeavesThatRequireGradients) {
  const at::Tensor buffer = make_tensor(128, 1.0);
  at::Tensor leaf = buffer.narrow(0, 64, 64).detach();
  leaf.set_requires_grad(true);
  AdamW optimizer = make_adamw({{leaf, make_tensor(64, 2.0)}});
  optimizer.step(0.1);
  EXPECT_NE(buffer[64].item<double>(),
            make_tensor(128, 1.0)[64].item<double>());
  EXPECT_EQ(buffer[63].item<double>(),
            make_tensor(128, 1.0)[63].item<double>());
  EXPECT_TRUE(leaf.requires_grad());
}

TEST(AdamW, PaddingStaysZero) {
  const at::Tensor parameter = at::zeros({64}, at::kFloat);
  AdamW optimizer({{parameter, at::zeros({64}, at::kFloat), 1.0, 0.1}}, {});
  optimizer.step(0.1);
  EXPECT_TRUE(at::equal(parameter, at::zeros({64}, at::kFloat)));
}

// Narrow parameters: the master does what an fp32 parameter would have done,
// and the parameter is that, rounded.
TEST(MasterWeights, AreAnFp32UpdateAndTheParameterIsItsRounding) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const double momentum : {-1.0, 0.0, 0.9}) {  // -1: AdamW
      const at::Tensor narrow = make_tensor(200, 1.0, type);
      const at::Tensor wide = narrow.to(at::kFloat);
      const auto tensors = [](const at::Tensor& parameter) {
        return std::vector<OptimizedTensor>{
            {.parameter = parameter,
             .gradient = make_tensor(200, 2.0, at::kFloat),
             .lr_scale = 0.5,
             .weight_decay = 0.1}};
      };
      OptimizerConfig config;
      if (momentum >= 0) {
        config.name = "sgd";
        config.momentum = momentum;
      }
      const auto mixed = make_optimizer(config, tensors(narrow));
      const auto single = make_optimizer(config, tensors(wide));
      for (int step = 0; step < 4; ++step) {
        mixed->step(0.01, 0.5);
        single->step(0.01, 0.5);
      }
      EXPECT_TRUE(at::equal(mixed->master(0), wide));
      EXPECT_TRUE(at::equal(narrow, wide.to(type)));
      EXPECT_EQ(mixed->state_bytes(), single->state_bytes() + 4 * 200);
      EXPECT_EQ(mixed->states()[0].name, "master");
      EXPECT_TRUE(at::equal(mixed->states()[0].tensor, wide));
    }
  }
}

// Steps of a quarter of the parameter's rounding: without a master 1.0 would
// stay 1.0 for ever.
TEST(MasterWeights, AddUpUpdatesBelowTheParametersRounding) {
  const at::Tensor parameter = at::full({64}, 1.0, at::kBFloat16);
  const at::Tensor gradient = at::full({64}, -1.0, at::kFloat);
  Sgd optimizer({{parameter, gradient}}, 0.0);
  const double ulp = 0x1p-7;
  optimizer.step(ulp / 4);
  EXPECT_EQ(parameter[0].item<double>(), 1.0);
  for (int step = 0; step < 7; ++step) {
    optimizer.step(ulp / 4);
  }
  EXPECT_EQ(parameter[0].item<double>(), 1.0 + 2 * ulp);
}

TEST(MasterWeights, StandBesideNarrowParametersAlone) {
  const at::Tensor wide = make_tensor(64, 1.0, at::kFloat);
  const at::Tensor narrow = make_tensor(64, 1.0, at::kBFloat16);
  AdamW optimizer = make_adamw(
      {{wide, make_tensor(64, 2.0, at::kFloat)},
       {narrow, make_tensor(64, 2.0, at::kFloat)},
       {make_tensor(0, 1.0, at::kBFloat16), make_tensor(0, 1.0, at::kFloat)}});
  optimizer.step(0.1);
  EXPECT_EQ(optimizer.master(0).data_ptr(), wide.data_ptr());
  EXPECT_EQ(optimizer.states()[0].name, "master");
  EXPECT_EQ(optimizer.states()[0].index, 1);
  EXPECT_TRUE(
      at::equal(narrow, optimizer.states()[0].tensor.to(at::kBFloat16)));
}

TEST(MasterWeights, ContinueFromTheirState) {
  OptimizedTensor unbroken = {make_tensor(90, 1.0, at::kBFloat16),
                              make_tensor(90, 2.0, at::kFloat)};
  AdamW first = make_adamw({unbroken});
  first.step(1e-4);
  OptimizedTensor resumed = {unbroken.parameter.clone(),
                             unbroken.gradient.clone()};
  AdamW second = make_adamw({resumed});
  second.set_num_steps(first.num_steps());
  for (size_t i = 0; i < first.states().size(); ++i) {
    second.states()[i].tensor.copy_(first.states()[i].tensor);
  }
  first.step(1e-4);
  second.step(1e-4);
  EXPECT_TRUE(at::equal(first.master(0), second.master(0)));
  EXPECT_TRUE(at::equal(unbroken.parameter, resumed.parameter));
}

TEST(Sgd, EqualsTheFormulaWithMomentumAndDecay) {
  const at::Tensor parameter = make_tensor(21, 1.0);
  const at::Tensor gradient = at::zeros({21}, at::kDouble);
  std::vector<double> expected(21);
  std::vector<double> momentum(21, 0.0);
  for (int64_t i = 0; i < 21; ++i) {
    expected[i] = parameter[i].item<double>();
  }
  Sgd optimizer(
      {{.parameter = parameter, .gradient = gradient, .weight_decay = 0.2}},
      0.9);
  for (int step = 0; step < 4; ++step) {
    gradient.copy_(make_tensor(21, 5.0 + step));
    for (int64_t i = 0; i < 21; ++i) {
      const double total = 0.5 * gradient[i].item<double>() + 0.2 * expected[i];
      momentum[i] = 0.9 * momentum[i] + total;
      expected[i] -= 0.03 * momentum[i];
    }
    optimizer.step(0.03, 0.5);
  }
  EXPECT_EQ(optimizer.state_bytes(), 21 * 8);
  for (int64_t i = 0; i < 21; ++i) {
    EXPECT_NEAR(parameter[i].item<double>(), expected[i], 1e-14);
  }
}

TEST(Sgd, WithoutMomentumHasNoState) {
  const at::Tensor parameter = at::full({3}, 2.0, at::kDouble);
  Sgd optimizer({{parameter, at::full({3}, 10.0, at::kDouble)}}, 0.0);
  optimizer.step(0.1);
  EXPECT_EQ(optimizer.state_bytes(), 0);
  EXPECT_TRUE(optimizer.states().empty());
  EXPECT_NEAR(parameter[1].item<double>(), 1.0, 1e-15);
}

std::string error_of(const OptimizerConfig& config) {
  try {
    make_optimizer(config, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Elements of state that the optimizer of `config` really has for a parameter
/// of one element.
int64_t states_made(const OptimizerConfig& config) {
  const at::Tensor parameter = at::zeros({64});
  const auto optimizer = make_optimizer(
      config, {{.parameter = parameter, .gradient = at::zeros({64})}});
  return optimizer->state_bytes() / static_cast<int64_t>(parameter.nbytes());
}

TEST(MakeOptimizer, ReadsTheConfig) {
  OptimizerConfig config;
  EXPECT_NE(dynamic_cast<AdamW*>(make_optimizer(config, {}).get()), nullptr);
  EXPECT_EQ(config.num_states(), 2);
  EXPECT_EQ(states_made(config), 2);
  config.name = "sgd";
  EXPECT_NE(dynamic_cast<Sgd*>(make_optimizer(config, {}).get()), nullptr);
  EXPECT_EQ(config.num_states(), 0);
  EXPECT_EQ(states_made(config), 0);
  config.momentum = 0.9;
  EXPECT_EQ(config.num_states(), 1);
  EXPECT_EQ(states_made(config), 1);
}

TEST(MakeOptimizer, RefusesWhatIsNoOptimizer) {
  OptimizerConfig config;
  config.name = "lion";
  EXPECT_THAT(error_of(config), HasSubstr("not \"lion\""));
  config.name = "adamw";
  config.betas = {0.9};
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.betas"));
  config.betas = {0.9, 1.0};
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.betas"));
  config.betas = {0.9, 0.95};
  for (const double eps : {-1.0, 0.0, 1e-60}) {
    config.eps = eps;
    EXPECT_THAT(error_of(config), HasSubstr("optimizer.eps"));
  }
  config.name = "sgd";
  config.momentum = 1.0;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.momentum"));
}

}  // namespace
}  // namespace triax
