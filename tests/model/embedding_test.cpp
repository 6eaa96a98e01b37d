// SPDX-License-Identifier: Apache-2.0
#include "triax/model/embedding.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/tensors.h"
#include "triax/base/error.h"

namespace triax {
namespace {

constexpr int64_t kNumIds = 7;

std::shared_ptr<Embedding> make_embedding(const at::Tensor& rows) {
  auto embedding = std::make_shared<Embedding>(
      EmbeddingOptions{.num_ids = kNumIds, .features = 3});
  embedding->weight->layout.shape = rows.sizes().vec();
  embedding->allocate_own_slots(at::kDouble);
  embedding->weight->tensor.detach().copy_(rows);
  return embedding;
}

TEST(Embedding, IsLibTorchsEmbedding) {
  const at::Tensor table = random_tensor({kNumIds, 3}, 1);
  const at::Tensor ids = random_ids({4, 6}, kNumIds, 2);
  const auto embedding = make_embedding(table);
  EXPECT_TRUE(bits_equal(embedding->forward(ids), at::embedding(table, ids)));
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    embedding->weight->tensor = in[0];
    return embedding->forward(ids);
  };
  EXPECT_LT(gradient_error(ours, {table}), 1e-8);
}

TEST(Embedding, PartsAddUpToTheWhole) {
  const at::Tensor table = random_tensor({kNumIds, 3}, 1);
  const at::Tensor ids = random_ids({4, 6}, kNumIds, 2);
  const at::Tensor padding = at::zeros({1, 3}, at::kDouble);
  const auto first = make_embedding(table.narrow(0, 0, 4));
  first->num_valid = 4;
  const auto second = make_embedding(at::cat({table.narrow(0, 4, 3), padding}));
  second->first_row = 4;
  second->num_valid = 3;
  const at::Tensor sum = first->forward(ids) + second->forward(ids);
  EXPECT_TRUE(bits_equal(sum, at::embedding(table, ids)));

  const at::Tensor weights = random_tensor({4, 6, 3}, 5);
  (sum * weights).sum().backward();
  const auto whole = make_embedding(table);
  (whole->forward(ids) * weights).sum().backward();
  EXPECT_TRUE(bits_equal(
      at::cat({first->weight->tensor.grad(), second->weight->tensor.grad()}),
      at::cat({whole->weight->tensor.grad(), padding})));
}

TEST(Embedding, PartWithoutValidRowsGivesZeros) {
  const auto none = make_embedding(at::zeros({2, 3}, at::kDouble) + 1);
  none->first_row = kNumIds;
  none->num_valid = 0;
  EXPECT_EQ(
      none->forward(random_ids({4, 6}, kNumIds, 2)).abs().max().item<double>(),
      0.0);
}

TEST(Embedding, RefusesIdsOutsideTheVocabulary) {
  const auto embedding = make_embedding(random_tensor({kNumIds, 3}, 1));
  const at::Tensor ids = random_ids({4, 6}, kNumIds, 2);
  EXPECT_THROW(embedding->forward(ids + kNumIds), Error);
  EXPECT_THROW(embedding->forward(ids - kNumIds), Error);
}

TEST(Embedding, PassesTheOutputThroughItsBoundary) {
  const auto embedding = make_embedding(random_tensor({kNumIds, 3}, 1));
  const at::Tensor ids = random_ids({4, 6}, kNumIds, 2);
  const at::Tensor plain = embedding->forward(ids);
  embedding->on_output = [](const at::Tensor& y) { return y * 2; };
  EXPECT_TRUE(bits_equal(embedding->forward(ids), plain * 2));
}

}  // namespace
}  // namespace triax
