// SPDX-License-Identifier: Apache-2.0
#include "triax/model/dropout.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tensors.h"

namespace triax {
namespace {

const DropoutOptions kOptions = {
    .probability = 0.1, .site = DropoutSite::kAttentionResidual, .layer = 3};

Place place_of(std::vector<int64_t> sample_ids) {
  return {.sample_ids = std::move(sample_ids),
          .first_position = 0,
          .step = 5,
          .seed = 11,
          .is_training = true,
          .document_ids = {}};
}

double share(const at::Tensor& mask) {
  return mask.to(at::kDouble).mean().item<double>();
}

at::Tensor hidden_mask(const DropoutOptions& options, const Place& place) {
  return hidden_keep_mask(options, place, place.first_position, {2, 40, 50});
}

TEST(Dropout, KeepsTheRightShare) {
  const at::Tensor mask =
      hidden_keep_mask(kOptions, place_of({3, 4}), 0, {2, 100, 1000});
  EXPECT_NEAR(share(mask), 0.9, 5 * std::sqrt(0.09 / 200000));
  // by feature and by position too
  EXPECT_LT((mask.to(at::kDouble).mean(1) - 0.9).abs().max().item<double>(),
            6 * std::sqrt(0.09 / 100));
  EXPECT_LT((mask.to(at::kDouble).mean(2) - 0.9).abs().max().item<double>(),
            6 * std::sqrt(0.09 / 1000));
}

TEST(Dropout, NeighboursAreIndependent) {
  const at::Tensor dropped =
      hidden_keep_mask(kOptions, place_of({3, 4}), 0, {2, 100, 1000})
          .logical_not();
  for (int64_t dim = 0; dim < 3; ++dim) {
    const int64_t length = dropped.size(dim) - 1;
    const at::Tensor both = dropped.narrow(dim, 0, length)
                                .logical_and(dropped.narrow(dim, 1, length));
    EXPECT_NEAR(share(both), 0.01, 6 * std::sqrt(0.01 / both.numel()));
  }
}

TEST(Dropout, MaskDoesNotDependOnTheSplitOfTheBatch) {
  const at::Tensor whole = hidden_mask(kOptions, place_of({7, 9}));
  const at::Tensor swapped = hidden_mask(kOptions, place_of({9, 7}));
  EXPECT_TRUE(bits_equal(whole[0], swapped[1]));
  const at::Tensor alone =
      hidden_keep_mask(kOptions, place_of({9}), 0, {1, 40, 50});
  EXPECT_TRUE(bits_equal(whole[1], alone[0]));
}

TEST(Dropout, MaskDoesNotDependOnTheSplitOfTheSequence) {
  const at::Tensor whole = hidden_mask(kOptions, place_of({7, 9}));
  Place later = place_of({7, 9});
  later.first_position = 25;
  EXPECT_TRUE(bits_equal(hidden_keep_mask(kOptions, later, 25, {2, 15, 50}),
                         whole.narrow(1, 25, 15)));

  Dropout part(kOptions);
  part.sequence_part = 1;
  const at::Tensor ones = at::ones({2, 20, 50}, at::kDouble);
  EXPECT_TRUE(bits_equal(part.forward(ones, place_of({7, 9})).gt(0),
                         whole.narrow(1, 20, 20)));
}

TEST(Dropout, EveryPartOfThePlaceMatters) {
  const at::Tensor mask = hidden_mask(kOptions, place_of({7, 9}));
  const auto overlap = [&](const DropoutOptions& options, const Place& place) {
    return share(hidden_mask(options, place).eq(mask));
  };
  const double independent = 0.81 + 0.01;
  DropoutOptions other = kOptions;
  other.layer = 4;
  EXPECT_NEAR(overlap(other, place_of({7, 9})), independent, 0.04);
  other = kOptions;
  other.site = DropoutSite::kFeedForwardResidual;
  EXPECT_NEAR(overlap(other, place_of({7, 9})), independent, 0.04);
  Place place = place_of({7, 9});
  place.step = 6;
  EXPECT_NEAR(overlap(kOptions, place), independent, 0.04);
  place = place_of({7, 9});
  place.seed = 12;
  EXPECT_NEAR(overlap(kOptions, place), independent, 0.04);
  place = place_of({7 + (int64_t{1} << 32), 10});
  EXPECT_NEAR(overlap(kOptions, place), independent, 0.04);
}

TEST(Dropout, AttentionMaskDoesNotDependOnTheSplitOfTheHeads) {
  const DropoutOptions options = {
      .probability = 0.5, .site = DropoutSite::kAttention, .layer = 2};
  const Place place = place_of({7, 9});
  const at::Tensor whole =
      attention_keep_mask(options, place, 0, {2, 6, 30, 30});
  const at::Tensor part =
      attention_keep_mask(options, place, 2, {2, 3, 30, 30});
  EXPECT_TRUE(bits_equal(part, whole.narrow(1, 2, 3)));
  const at::Tensor causal = at::ones({30, 30}, at::kBool).tril();
  EXPECT_NEAR(share(whole.masked_select(causal)), 0.5, 0.04);
  EXPECT_FALSE(whole.logical_and(causal.logical_not()).any().item<bool>());
}

TEST(Dropout, ScalesWhatItKeepsBothWays) {
  Dropout dropout(kOptions);
  const Place place = place_of({7, 9});
  const at::Tensor mask = hidden_mask(kOptions, place);
  const at::Tensor x = random_tensor({2, 40, 50}, 1).requires_grad_();
  const at::Tensor y = dropout.forward(x, place);
  EXPECT_LT(max_difference(y, x * mask / 0.9), 1e-14);
  const at::Tensor weights = random_tensor({2, 40, 50}, 2);
  (y * weights).sum().backward();
  EXPECT_LT(max_difference(x.grad(), weights * mask / 0.9), 1e-14);
}

TEST(Dropout, DoesNothingOutsideTraining) {
  Dropout dropout(kOptions);
  Place place = place_of({7, 9});
  place.is_training = false;
  const at::Tensor x = random_tensor({2, 40, 50}, 1);
  EXPECT_TRUE(dropout.forward(x, place).is_same(x));
}

TEST(Dropout, WantsASampleIdForEverySample) {
  EXPECT_THROW(hidden_mask(kOptions, place_of({7})), std::logic_error);
}

}  // namespace
}  // namespace triax
