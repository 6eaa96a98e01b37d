// SPDX-License-Identifier: Apache-2.0
#include "triax/model/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace triax {
namespace {

// Known answers of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                   {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeepComparesTheSameBits) {
  constexpr int kCount = 203;  // neither a multiple of 4 nor of the lanes
  const PhiloxKey key = {5, 6};
  const uint32_t threshold = 0x40000000;
  auto keep = std::make_unique<bool[]>(kCount);
  philox_keep(key, {1, 2, 3}, threshold, keep.get(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t bits = philox({1, 2, 3, i / 4}, key)[i % 4];
    EXPECT_EQ(keep[i], bits >= threshold) << i;
  }
}

TEST(Philox, KeysDifferByEveryWordAndTheirOrder) {
  EXPECT_NE(make_philox_key({1, 2}), make_philox_key({2, 1}));
  EXPECT_NE(make_philox_key({1, 2}), make_philox_key({1, 2, 0}));
  EXPECT_NE(make_philox_key(1, "a.weight"), make_philox_key(1, "b.weight"));
  EXPECT_NE(make_philox_key(1, "a.weight"), make_philox_key(2, "a.weight"));
  EXPECT_EQ(make_philox_key(1, "a.weight"), make_philox_key(1, "a.weight"));
}

}  // namespace
}  // namespace triax
