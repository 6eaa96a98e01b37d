// SPDX-License-Identifier: Apache-2.0
#include "triax/base/rounding.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace triax {
namespace {

TEST(Rounding, DividesUp) {
  EXPECT_EQ(divide_up(0, 8), 0);
  EXPECT_EQ(divide_up(9, 8), 2);
  EXPECT_EQ(divide_up(16, 8), 2);
  EXPECT_EQ(divide_up(-9, 8), -1);
  EXPECT_EQ(divide_up(std::numeric_limits<int64_t>::max(), 2),
            int64_t{1} << 62);
}

TEST(Rounding, RoundsUp) {
  EXPECT_EQ(round_up(0, 8), 0);
  EXPECT_EQ(round_up(9, 8), 16);
  EXPECT_EQ(round_up(size_t{16}, 8), size_t{16});
}

}  // namespace
}  // namespace triax
