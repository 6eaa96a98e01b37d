// SPDX-License-Identifier: Apache-2.0
// Gradients of 16-bit parameters, where they are wanted in fp32, are sums that
// were not rounded to 16 bits on the way: 4,097 and 301 are no bf16 numbers
// (4,096 and 4,128, 300 and 302 are).
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "triax/model/embedding.h"
#include "triax/model/linear.h"
#include "triax/model/norm.h"

namespace triax {
namespace {

constexpr int64_t kMany = 4097;

/// Storage of `module` in bf16, all of it `value`; gradients are fp32.
void allocate(ParameterModule& module, double value) {
  module.allocate_own_slots(at::kBFloat16);
  for (ParameterSlot* slot : module.own_slots()) {
    slot->tensor.detach().fill_(value);
    slot->tensor.set_grad_dtype(at::kFloat);
  }
}

at::Tensor gradient(const ParameterSlot& slot) {
  EXPECT_EQ(slot.tensor.grad().scalar_type(), at::kFloat) << slot.layout.name;
  return slot.tensor.grad();
}

TEST(NarrowGradients, OfAnEmbeddingAreSummedInFp32) {
  Embedding embedding({.num_ids = 2, .features = 4});
  allocate(embedding, 0.5);
  const at::Tensor ids = at::zeros({1, kMany}, at::kLong);
  embedding.forward(ids).sum().backward();
  EXPECT_TRUE(at::equal(gradient(*embedding.weight)[0],
                        at::full({4}, double(kMany), at::kFloat)));
}

TEST(NarrowGradients, OfABiasAreSummedInFp32) {
  for (const bool is_split : {false, true}) {
    Linear linear({.in_features = 4, .out_features = 3, .has_bias = true});
    allocate(linear, 0.5);
    if (is_split) {
      linear.on_output = [](const at::Tensor& y) { return y.clone(); };
    }
    const at::Tensor x = at::ones({1, kMany, 4}, at::kBFloat16);
    linear.forward(x).sum().backward();
    EXPECT_TRUE(at::equal(gradient(*linear.bias),
                          at::full({3}, double(kMany), at::kFloat)));
    // The product rounds once, to 4,096.
    EXPECT_TRUE(at::equal(gradient(*linear.weight),
                          at::full({3, 4}, 4096.0, at::kFloat)));
  }
}

TEST(NarrowGradients, OfNormsAreSummedInFp32) {
  // Rows of ±1 are their own norm.
  const at::Tensor x = at::ones({1, kMany, 4}, at::kBFloat16);
  x.slice(2, 0, 4, 2).fill_(-1.0);
  RmsNorm rms(4, 0.0);
  LayerNorm layer(4, 0.0);
  const auto allocate_norm = [](Norm& norm) {
    allocate(norm, 1.0);
    for (ParameterSlot* slot : norm.own_slots()) {
      slot->tensor.detach().fill_(slot->layout.name == "weight" ? 1.0 : 0.0);
    }
  };
  for (Norm* norm : {static_cast<Norm*>(&rms), static_cast<Norm*>(&layer)}) {
    allocate_norm(*norm);
    const at::Tensor y = norm->forward(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(y, x));
    (y * x).sum().backward();
    EXPECT_TRUE(at::equal(gradient(*norm->own_slots()[0]),
                          at::full({4}, double(kMany), at::kFloat)));
  }
  EXPECT_TRUE(at::equal(gradient(*layer.bias).abs(),
                        at::full({4}, double(kMany), at::kFloat)));
}

TEST(NarrowGradients, AddUpOverBackwardPasses) {
  Linear linear({.in_features = 1, .out_features = 1});
  allocate(linear, 0.5);
  for (const double value : {256.0, 44.0}) {
    linear.forward(at::full({1, 1, 1}, value, at::kBFloat16)).sum().backward();
  }
  EXPECT_EQ(gradient(*linear.weight).item<double>(), 300.0);
  linear.forward(at::full({1, 1, 1}, 1.0, at::kBFloat16)).sum().backward();
  EXPECT_EQ(gradient(*linear.weight).item<double>(), 301.0);
}

}  // namespace
}  // namespace triax
