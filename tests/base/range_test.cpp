// SPDX-License-Identifier: Apache-2.0
#include "triax/base/range.h"

#include <gtest/gtest.h>

namespace triax {
namespace {

TEST(Range, IntersectionIsWhatBothHold) {
  EXPECT_EQ(intersection({0, 10}, {4, 3}), (Range{4, 3}));
  EXPECT_EQ(intersection({0, 6}, {4, 8}), (Range{4, 2}));
  EXPECT_EQ(intersection({4, 8}, {0, 6}), (Range{4, 2}));
}

TEST(Range, IntersectionOfStrangersIsEmpty) {
  EXPECT_EQ(intersection({0, 4}, {4, 4}).length, 0);
  EXPECT_EQ(intersection({0, 2}, {9, 4}).length, 0);
  EXPECT_EQ(intersection({9, 4}, {0, 2}).length, 0);
}

}  // namespace
}  // namespace triax
