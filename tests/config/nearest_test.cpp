// SPDX-License-Identifier: Apache-2.0
#include "triax/config/nearest.h"

#include <gtest/gtest.h>

#include "triax/config/name_pattern.h"

namespace triax {
namespace {

TEST(Nearest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("clipp1ng", "clipping"), 1);
  EXPECT_EQ(edit_distance("setps", "steps"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("micro_batch_size", "microbatch_size"), 0);
}

TEST(Nearest, IsEmptyWhenNothingIsNear) {
  EXPECT_EQ(nearest("stpes", {"steps", "seed"}), "steps");
  EXPECT_EQ(nearest("xyz", {"steps", "seed"}), "");
  EXPECT_EQ(nearest("", {"tp"}), "");
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), {"steps"}), "");
}

TEST(NamePattern, FitsTheWholeName) {
  EXPECT_TRUE(matches_pattern("*.bias", "h.0.attn.bias"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("h.?.*", "h.3.x"));
  EXPECT_TRUE(matches_pattern("*a*b", "aab"));
  EXPECT_TRUE(matches_pattern("a**", "a"));
  EXPECT_FALSE(matches_pattern("h.?.*", "h.12.x"));
  EXPECT_FALSE(matches_pattern("bias", "h.bias"));
  EXPECT_FALSE(matches_pattern("*.bias", "h.bias2"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(
      matches_pattern(std::string(50, '*') + "b", std::string(5000, 'a')));
}

TEST(SureSlip, IsOfLettersAndOfOneWord) {
  const std::vector<std::string_view> words = {
      "bf16", "fp16", "gradient_clipping", "steps", "stops"};
  EXPECT_TRUE(is_sure_slip("graient_clipping", "gradient_clipping", words));
  EXPECT_TRUE(is_sure_slip("bg16", "bf16", words));
  EXPECT_FALSE(is_sure_slip("bf15", "bf16", words));
  EXPECT_FALSE(is_sure_slip("staps", "steps", {"steps", "stops"}));
  EXPECT_FALSE(is_sure_slip("bp16", "bf16", words));
}

}  // namespace
}  // namespace triax
