// SPDX-License-Identifier: Apache-2.0
#include "triax/model/rotary.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/tensors.h"
#include "triax/base/error.h"

namespace triax {
namespace {

// B 2, S 3, 3 heads of 4 of which 2 turn
constexpr int64_t kHeadDim = 4;

TensorFunction rotate(int64_t first_position) {
  return [first_position](const std::vector<at::Tensor>& in) {
    Rotary rotary(kHeadDim, 100.0, {});
    const auto angles =
        rotary.angles(first_position, in[0].size(1), in[0].scalar_type());
    return rotate_(in[0].clone(), angles, 2);
  };
}

/// cat(-x2, x1) with cos and sin doubled: the form of transformers.
at::Tensor composed(const at::Tensor& x, int64_t first_position) {
  Rotary rotary(kHeadDim, 100.0, {});
  const auto half = rotary.angles(first_position, x.size(1), x.scalar_type());
  const at::Tensor cosine = at::cat({half.cosine, half.cosine}, 1).unsqueeze(1);
  const at::Tensor sine = at::cat({half.sine, half.sine}, 1).unsqueeze(1);
  const at::Tensor heads = x.view({x.size(0), x.size(1), 3, kHeadDim});
  const at::Tensor turned =
      at::cat({-heads.narrow(3, 2, 2), heads.narrow(3, 0, 2)}, 3);
  const at::Tensor all = heads * cosine + turned * sine;
  return at::cat({all.narrow(2, 0, 2), heads.narrow(2, 2, 1)}, 2)
      .view(x.sizes());
}

TEST(Rotary, TurnsTheFirstHeadsByRotateHalf) {
  const at::Tensor x = random_tensor({2, 3, 3 * kHeadDim}, 1);
  for (const int64_t first : {0, 5}) {
    EXPECT_LT(max_difference(rotate(first)({x}), composed(x, first)), 1e-15);
  }
}

TEST(Rotary, HasTheRightGradients) {
  EXPECT_LT(gradient_error(rotate(2), {random_tensor({2, 3, 12}, 1)}), 1e-8);
}

TEST(Rotary, WorksInPlace) {
  const at::Tensor x = random_tensor({2, 3, 12}, 1).requires_grad_();
  const at::Tensor copy = x.clone();
  Rotary rotary(kHeadDim, 100.0, {});
  const at::Tensor turned = rotate_(copy, rotary.angles(0, 3, at::kDouble), 2);
  EXPECT_EQ(turned.data_ptr(), copy.data_ptr());
}

TEST(Rotary, PositionsContinueWhereTheyWereCut) {
  Rotary rotary(8, 10000.0, {});
  const auto whole = rotary.angles(0, 10, at::kFloat);
  const auto tail = rotary.angles(6, 4, at::kFloat);
  EXPECT_TRUE(bits_equal(tail.cosine, whole.cosine.narrow(0, 6, 4)));
  EXPECT_TRUE(bits_equal(tail.sine, whole.sine.narrow(0, 6, 4)));
}

// Llama 3.1's published formula, written out for one frequency at a time.
TEST(Rotary, ScalesAsLlama3) {
  const RopeScaling scaling = {.type = "llama3",
                               .factor = 8.0,
                               .low_freq_factor = 1.0,
                               .high_freq_factor = 4.0,
                               .original_max_position_embeddings = 64};
  const at::Tensor scaled = inverse_frequencies(32, 500.0, scaling);
  int kept = 0;
  int slowed = 0;
  int blended = 0;
  for (int i = 0; i < 16; ++i) {
    const double inverse = std::pow(500.0, -2.0 * i / 32);
    const double wavelength = 2 * std::numbers::pi / inverse;
    double expected = inverse;
    if (wavelength > 64.0) {
      expected = inverse / 8;
      ++slowed;
    } else if (wavelength >= 16.0) {
      const double blend = (64.0 / wavelength - 1) / 3;
      expected = (1 - blend) * inverse / 8 + blend * inverse;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(scaled[i].item<float>() / expected, 1.0, 1e-6) << i;
  }
  EXPECT_TRUE(kept > 0 && slowed > 0 && blended > 0);
}

TEST(Rotary, RefusesScalingsThatAreNotBuilt) {
  EXPECT_THROW(inverse_frequencies(8, 1e4, {.type = "yarn"}), Error);
}

}  // namespace
}  // namespace triax
