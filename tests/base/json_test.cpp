// SPDX-License-Identifier: Apache-2.0
#include "triax/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "triax/base/error.h"

namespace triax {
namespace {

std::string error_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "a.json", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, ReadsEveryKindOfValue) {
  const Json value = parse_json(
      R"({"a": [1, -2, 2.5, true, null, "x\n"], "b": {"c": {}}})", "a.json");
  EXPECT_EQ(value["a"][1].get<int64_t>(), -2);
  EXPECT_EQ(value["a"][2].get<double>(), 2.5);
  EXPECT_TRUE(value["a"][4].is_null());
  EXPECT_EQ(value["a"][5].get<std::string>(), "x\n");
  EXPECT_TRUE(value["b"]["c"].empty());
  EXPECT_EQ(parse_json("7", "a.json"), Json(7));
}

TEST(Json, RefusesWhatOtherReadersWouldReadDifferently) {
  EXPECT_THAT(error_of(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
              testing::HasSubstr("\"a\" stands twice"));
  EXPECT_THAT(error_of("[1,\n2,]"), testing::HasSubstr("line 2"));
  EXPECT_THAT(error_of("[1] x"), testing::HasSubstr("a.json"));
  EXPECT_NE(error_of(""), "");
  EXPECT_NE(error_of("\"\xff\""), "");
  EXPECT_NE(error_of("[1e999]"), "");
  EXPECT_NE(error_of("[NaN]"), "");
  EXPECT_NE(error_of(std::string("[1\0]", 4)), "");
}

TEST(Json, BoundsDepthAndSize) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of(nested(64)), "");
  EXPECT_THAT(error_of(nested(65)), testing::HasSubstr("64 levels"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[')),
              testing::HasSubstr("64 levels"));
  EXPECT_THAT(error_of("[1, 2, 3]", {.max_bytes = 8}),
              testing::HasSubstr("9 bytes"));
}

TEST(Json, WritesNonFiniteNumbersAsNullAndSaysWhere) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::string> replaced;
  EXPECT_EQ(
      dump_json({{"loss", nan}, {"norms", {1.0, 1e300 * 1e300}}}, &replaced),
      R"({"loss":null,"norms":[1.0,null]})");
  EXPECT_THAT(replaced, testing::ElementsAre("/loss", "/norms/1"));
}

TEST(Json, WritesBytesThatAreNotUtf8) {
  EXPECT_EQ(dump_json("a\xff"), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace triax
