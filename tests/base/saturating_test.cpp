// SPDX-License-Identifier: Apache-2.0
#include "triax/base/saturating.h"

#include <gtest/gtest.h>

namespace triax {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(Saturating, HoldsWhatDoesNotFitAtTheEnd) {
  EXPECT_EQ(saturating_add(2, 3), 5);
  EXPECT_EQ(saturating_add(kMost, 1), kMost);
  EXPECT_EQ(saturating_add(kLeast, -1), kLeast);
  EXPECT_EQ(saturating_add(kMost, kLeast), -1);
  EXPECT_EQ(saturating_subtract(2, 3), -1);
  EXPECT_EQ(saturating_subtract(kLeast, 1), kLeast);
  EXPECT_EQ(saturating_subtract(0, kLeast), kMost);
  EXPECT_EQ(saturating_multiply(-4, 5), -20);
  EXPECT_EQ(saturating_multiply(kMost, 2), kMost);
  EXPECT_EQ(saturating_multiply(kMost, -2), kLeast);
  EXPECT_EQ(saturating_multiply(kLeast, -1), kMost);
  EXPECT_EQ(saturating_product({kMost, kMost, 0}), 0);
  EXPECT_EQ(saturating_product({1 << 20, 1 << 20, 1 << 20, 1 << 20}), kMost);
}

TEST(Saturating, RoundsUp) {
  EXPECT_EQ(saturating_round_up(9, 8), 16);
  EXPECT_EQ(saturating_round_up(16, 8), 16);
  EXPECT_EQ(saturating_round_up(-9, 8), -8);
  EXPECT_EQ(saturating_round_up(kMost, 8), kMost);
}

}  // namespace
}  // namespace triax
