// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/hjson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/base/file.h"
#include "triax/base/json.h"

namespace triax {
namespace {

using testing::HasSubstr;

Json json_of(const ConfigValue& value) {
  if (is_null(value)) {
    return nullptr;
  }
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return *flag;
  }
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return *whole;
  }
  if (const auto* real = std::get_if<double>(&value.data)) {
    return *real;
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return *text;
  }
  if (const auto* items = std::get_if<ConfigArray>(&value.data)) {
    Json array = Json::array();
    for (const ConfigValue& item : *items) {
      array.push_back(json_of(item));
    }
    return array;
  }
  Json object = Json::object();
  for (const ConfigEntry& entry : std::get<ConfigTable>(value.data)) {
    object[entry.key] = json_of(entry.value);
  }
  return object;
}

std::vector<std::string> split(const std::string& text,
                               const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// expected.txt is what the Python package made of cases.txt, by
// tests/foreign/hjson_oracle.py.
TEST(Hjson, ReadsWhatThePythonPackageReads) {
  const std::string folder = TRIAX_SOURCE_DIR "/tests/foreign/hjson/";
  const auto cases = split(read_file(folder + "cases.txt", 1 << 22), "====\n");
  const auto expected =
      split(read_file(folder + "expected.txt", 1 << 22), "\n");
  ASSERT_EQ(cases.size() + 1, expected.size());
  int num_read = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const ParsedHjson parsed = parse_hjson(cases[i], "a");
    if (expected[i] == "refused") {
      EXPECT_TRUE(parsed.problem.has_value()) << cases[i] << "\n"
                                              << json_of(parsed.root);
      continue;
    }
    ++num_read;
    ASSERT_FALSE(parsed.problem.has_value()) << cases[i] << "\n"
                                             << to_text(*parsed.problem);
    EXPECT_EQ(json_of(parsed.root), parse_json(expected[i], "e")) << cases[i];
  }
  EXPECT_GT(num_read, 150);
}

TEST(Hjson, KnowsItsPlaces) {
  const ParsedHjson parsed =
      parse_hjson("{\n  é: 1, \"b\": {\n\tc: [1, 'x']\n}}", "a.json");
  ASSERT_FALSE(parsed.problem.has_value());
  const auto& root = std::get<ConfigTable>(parsed.root.data);
  EXPECT_EQ(root[0].key_position, (Position{"a.json", 2, 3}));
  EXPECT_EQ(root[0].value.position, (Position{"a.json", 2, 6}));
  EXPECT_EQ(root[1].key_position, (Position{"a.json", 2, 9}));
  const auto& inner = std::get<ConfigTable>(root[1].value.data);
  const auto& items = std::get<ConfigArray>(inner[0].value.data);
  EXPECT_EQ(items[1].position, (Position{"a.json", 3, 9}));
}

TEST(Hjson, BoundsWhatItReads) {
  for (const std::string& text : {std::string(100'000, '['),
                                  std::string(100'000, '{'),
                                  std::string("{a\0: 1}", 7),
                                  std::string("{\"a\": \"\xc0\x80\"}"),
                                  std::string("{\"a\": \"\xed\xa0\x80\"}"),
                                  "[" + std::string(5000, '9') + "]",
                                  std::string("[1e999]")}) {
    const ParsedHjson parsed = parse_hjson(text, "a");
    ASSERT_TRUE(parsed.problem.has_value()) << text.substr(0, 20);
    EXPECT_LT(parsed.problem->message.size(), 200u);
  }
  std::string nested;
  for (int i = 0; i < 60; ++i) {
    nested += "{a:";
  }
  EXPECT_FALSE(parse_hjson(nested + "1" + std::string(60, '}'), "a").problem);
  EXPECT_THAT(parse_hjson("{a: 1,\n a: 2}", "a").problem->message,
              HasSubstr("stands twice"));
}

// What people write as JSON, where hjson takes a line for the text.
TEST(Hjson, SaysWhichTextRanOn) {
  const ParsedHjson parsed = parse_hjson("{\"a\": NaN, \"b\": 1}", "f");
  ASSERT_TRUE(parsed.problem);
  EXPECT_EQ(parsed.problem->fix,
            "put the text at 1:7 in quotes: without them it runs to the end of "
            "its line");
  EXPECT_EQ(parse_hjson("{\"a\": 1", "f").problem->fix, "");
}

}  // namespace
}  // namespace triax
