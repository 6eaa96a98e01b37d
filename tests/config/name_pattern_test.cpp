// SPDX-License-Identifier: Apache-2.0
#include "triax/config/name_pattern.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace triax {
namespace {

// What matches_pattern() must equal, slow and plain.
bool matches_plainly(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) {
    return name.empty();
  }
  if (pattern[0] == '*') {
    return matches_plainly(pattern.substr(1), name) ||
           (!name.empty() && matches_plainly(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches_plainly(pattern.substr(1), name.substr(1));
}

TEST(NamePattern, MatchesWholeNames) {
  EXPECT_TRUE(matches_pattern("*.bias", "a.b.bias"));
  EXPECT_FALSE(matches_pattern("*.bias", "a.b.biases"));
  EXPECT_TRUE(matches_pattern("a.?.c", "a.b.c"));
  EXPECT_FALSE(matches_pattern("a.?.c", "a..c"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("*.layers.1.*", "model.layers.1.mlp.weight"));
  EXPECT_FALSE(matches_pattern("*.layers.1.*", "model.layers.11.mlp.weight"));
}

TEST(NamePattern, EqualsThePlainDefinition) {
  EXPECT_TRUE(rc::check("pattern", [] {
    const auto pattern = *rc::gen::resize(
        12,
        rc::gen::container<std::string>(rc::gen::element('a', 'b', '*', '?')));
    const auto name = *rc::gen::resize(
        16, rc::gen::container<std::string>(rc::gen::element('a', 'b')));
    RC_ASSERT(matches_pattern(pattern, name) == matches_plainly(pattern, name));
  }));
}

// Recursion would need 2^60 steps here: the test ends only if this does not.
TEST(NamePattern, ManyStarsDoNotBlowUp) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) {
    pattern += "*a";
  }
  EXPECT_FALSE(matches_pattern(pattern + "b", std::string(20000, 'a')));
}

}  // namespace
}  // namespace triax
