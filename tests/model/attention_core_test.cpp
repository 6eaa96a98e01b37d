// SPDX-License-Identifier: Apache-2.0
#include "triax/model/attention_core.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/tensors.h"

namespace triax {
namespace {

constexpr double kProbability = 0.25;

/// Written out: repeated key heads, masked scores, softmax, product.
at::Tensor composed(const at::Tensor& qkv,
                    const HeadCounts& heads,
                    const at::Tensor& document_ids,
                    const at::Tensor& factor) {
  const int64_t length = qkv.size(1);
  const int64_t group = heads.num_queries / heads.num_keys;
  const at::Tensor rows =
      qkv.view({qkv.size(0), length, -1, heads.head_dim}).transpose(1, 2);
  const at::Tensor query = rows.narrow(1, 0, heads.num_queries);
  const at::Tensor key = rows.narrow(1, heads.num_queries, heads.num_keys)
                             .repeat_interleave(group, 1);
  const at::Tensor value =
      rows.narrow(1, heads.num_queries + heads.num_keys, heads.num_keys)
          .repeat_interleave(group, 1);
  at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
  if (document_ids.defined()) {
    hidden = hidden.logical_or(
        document_ids.unsqueeze(2).ne(document_ids.unsqueeze(1)).unsqueeze(1));
  }
  at::Tensor probabilities = at::softmax(
      (at::matmul(query, key.transpose(2, 3)) /
       std::sqrt(static_cast<double>(heads.head_dim)))
          .masked_fill(hidden, -std::numeric_limits<double>::infinity()),
      -1);
  if (factor.defined()) {
    probabilities = probabilities * factor;
  }
  return at::matmul(probabilities, value)
      .transpose(1, 2)
      .reshape({qkv.size(0), length, -1});
}

struct Case {
  HeadCounts heads;
  bool has_documents = false;
};

class AttentionCore : public testing::TestWithParam<Case> {
 protected:
  HeadCounts heads() const { return GetParam().heads; }
  at::Tensor qkv(int64_t length = 6) const {
    const int64_t rows = heads().num_queries + 2 * heads().num_keys;
    return random_tensor({2, length, rows * heads().head_dim}, 1);
  }
  at::Tensor documents() const {
    if (!GetParam().has_documents) {
      return at::Tensor();
    }
    return at::tensor({0, 0, 0, 1, 1, 2, 0, 1, 1, 1, 1, 1}, at::kLong)
        .view({2, 6});
  }
  at::Tensor keep() const {
    return random_tensor({2, heads().num_queries, 6, 6}, 2).gt(-0.7);
  }
};

TEST_P(AttentionCore, FlashIsTheFormula) {
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return attend(in[0], heads(), documents());
  };
  const TensorFunction theirs = [&](const std::vector<at::Tensor>& in) {
    return composed(in[0], heads(), documents(), at::Tensor());
  };
  EXPECT_LT(max_difference(ours({qkv()}), theirs({qkv()})), 1e-14);
  EXPECT_LT(max_difference(gradients(ours, {qkv()})[0],
                           gradients(theirs, {qkv()})[0]),
            1e-13);
  EXPECT_LT(gradient_error(ours, {qkv()}), 1e-8);
}

TEST_P(AttentionCore, DropoutIsTheFormula) {
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return attend_with_dropout(
        in[0], heads(), documents(), keep(), kProbability);
  };
  const TensorFunction theirs = [&](const std::vector<at::Tensor>& in) {
    return composed(in[0],
                    heads(),
                    documents(),
                    keep().to(at::kDouble) / (1 - kProbability));
  };
  EXPECT_LT(max_difference(ours({qkv()}), theirs({qkv()})), 1e-14);
  EXPECT_LT(max_difference(gradients(ours, {qkv()})[0],
                           gradients(theirs, {qkv()})[0]),
            1e-13);
  EXPECT_LT(gradient_error(ours, {qkv()}), 1e-8);
}

TEST_P(AttentionCore, NothingDroppedIsFlash) {
  const at::Tensor all = at::ones({2, heads().num_queries, 6, 6}, at::kBool);
  EXPECT_LT(
      max_difference(attend_with_dropout(qkv(), heads(), documents(), all, 0.0),
                     attend(qkv(), heads(), documents())),
      1e-14);
}

INSTANTIATE_TEST_SUITE_P(
    Heads,
    AttentionCore,
    testing::Values(Case{{.num_queries = 2, .num_keys = 2, .head_dim = 4}},
                    Case{{.num_queries = 4, .num_keys = 2, .head_dim = 4}},
                    Case{{.num_queries = 3, .num_keys = 1, .head_dim = 4}},
                    Case{{.num_queries = 4, .num_keys = 2, .head_dim = 4},
                         true}));

// The kernel adds the gradients of grouped heads: it must not race.
TEST(AttentionCoreLarge, GroupedGradientsAreReproducible) {
  at::set_num_threads(2);
  const HeadCounts heads = {.num_queries = 8, .num_keys = 2, .head_dim = 16};
  const at::Tensor qkv = random_tensor({2, 300, 12 * 16}, 1, at::kFloat);
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return attend(in[0], heads, at::Tensor());
  };
  const TensorFunction theirs = [&](const std::vector<at::Tensor>& in) {
    return composed(in[0], heads, at::Tensor(), at::Tensor());
  };
  const at::Tensor first = gradients(ours, {qkv})[0];
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(bits_equal(gradients(ours, {qkv})[0], first));
  }
  EXPECT_LT(
      relative_difference(first, gradients(theirs, {qkv.to(at::kDouble)})[0]),
      1e-6);
}

TEST(AttentionCoreLarge, ShortTypesStayClose) {
  const HeadCounts heads = {.num_queries = 4, .num_keys = 2, .head_dim = 16};
  const at::Tensor qkv = random_tensor({2, 50, 8 * 16}, 1, at::kBFloat16);
  const TensorFunction ours = [&](const std::vector<at::Tensor>& in) {
    return attend(in[0], heads, at::Tensor());
  };
  const TensorFunction theirs = [&](const std::vector<at::Tensor>& in) {
    return composed(in[0], heads, at::Tensor(), at::Tensor());
  };
  const at::Tensor wide = qkv.to(at::kDouble);
  EXPECT_LT(relative_difference(ours({qkv}), theirs({wide})), 1e-2);
  EXPECT_LT(relative_difference(gradients(ours, {qkv})[0],
                                gradients(theirs, {wide})[0]),
            2e-2);
}

}  // namespace
}  // namespace triax
