// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/parse_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <fstream>

#include "triax/foreign/foreign_config.h"

namespace triax {
namespace {

using testing::HasSubstr;

ParsedYaml parse(const std::string& text) {
  return parse_yaml(text, "a.yaml");
}

std::string text_at(const ParsedYaml& parsed, const std::string& path) {
  const ConfigValue* value = find_value(parsed.table, path);
  return value == nullptr ? "none" : value_text(*value);
}

std::string first_message(const std::string& text) {
  const ParsedYaml parsed = parse(text);
  EXPECT_EQ(parsed.problems.size(), 1);
  if (parsed.problems.empty()) {
    return "";
  }
  EXPECT_EQ(parsed.problems[0].rule, "syntax");
  EXPECT_TRUE(parsed.table.empty());
  return parsed.problems[0].message;
}

bool agrees(const ConfigValue& value,
            const std::string& kind,
            const std::string& written) {
  if (const auto* flag = std::get_if<bool>(&value.data)) {
    return kind == "flag" && written == (*flag ? "true" : "false");
  }
  if (const auto* whole = std::get_if<int64_t>(&value.data)) {
    return kind == "whole" && written == std::to_string(*whole);
  }
  if (const auto* real = std::get_if<double>(&value.data)) {
    if (kind != "real" || std::isnan(*real)) {
      return kind == "real" && written == "nan";
    }
    return std::stod(written) == *real;
  }
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    return kind == "text" && written == *text;
  }
  const std::string foreign = std::get<ForeignValue>(value.data).kind;
  return (kind == "null" && foreign == "null") ||
         (kind == "date" && foreign == "a date") ||
         (kind == "whole" && foreign.starts_with("a whole number of more"));
}

// The file is what tests/foreign/parse_yaml_scalars.py writes.
TEST(YamlScalar, IsWhatPyYamlMakesOfIt) {
  std::ifstream in(TRIAX_SOURCE_DIR "/tests/foreign/parse_yaml_scalars.tsv");
  std::string line;
  int count = 0;
  while (std::getline(in, line)) {
    const size_t first = line.find('\t');
    const size_t second = line.find('\t', first + 1);
    const std::string text = line.substr(0, first);
    const std::string kind = line.substr(first + 1, second - first - 1);
    EXPECT_TRUE(
        agrees(resolve_yaml_scalar(text, {}), kind, line.substr(second + 1)))
        << line;
    ++count;
  }
  EXPECT_GT(count, 6000);
}

TEST(ParseYaml, ReadsBlockAndFlowWithPlaces) {
  const ParsedYaml parsed =
      parse("a:\n  b: 1\n  c: [x, 2.5, {d: yes}]\ne:\nf: '010'\n");
  ASSERT_TRUE(parsed.problems.empty());
  EXPECT_EQ(text_at(parsed, "a.b"), "1");
  EXPECT_EQ(text_at(parsed, "a.c"), "a list of 3");
  EXPECT_EQ(text_at(parsed, "e"), "null");
  EXPECT_EQ(text_at(parsed, "f"), "\"010\"");
  EXPECT_EQ(find_value(parsed.table, "a.b")->position,
            (Position{"a.yaml", 2, 6}));
  EXPECT_EQ(find_entry(parsed.table, "a.c")->key_position,
            (Position{"a.yaml", 3, 3}));
  EXPECT_EQ(find_value(parsed.table, "e")->position,
            (Position{"a.yaml", 4, 1}));
}

TEST(ParseYaml, PutsAliasesAndMergedTablesInPlace) {
  const ParsedYaml parsed = parse(
      "base: &b {x: 1, y: 2}\nother: &o {y: 5, z: 6}\n"
      "one: *b\ntwo: {<<: *b, y: 3}\nthree:\n  <<: [*b, *o]\n  x: 9\n");
  ASSERT_TRUE(parsed.problems.empty());
  EXPECT_EQ(text_at(parsed, "one.y"), "2");
  EXPECT_EQ(text_at(parsed, "two.x"), "1");
  EXPECT_EQ(text_at(parsed, "two.y"), "3");
  EXPECT_EQ(text_at(parsed, "three.x"), "9");
  EXPECT_EQ(text_at(parsed, "three.y"), "2");
  EXPECT_EQ(text_at(parsed, "three.z"), "6");
  EXPECT_THAT(first_message("a: {<<: 3}\n"), HasSubstr("takes a table"));
  EXPECT_THAT(first_message("a: &x [*x]\n"), HasSubstr("inside what"));
}

TEST(ParseYaml, TakesTheLastOfTwoAndSaysSo) {
  const ParsedYaml parsed = parse("a: 1\nb: 2\na: 3\n");
  EXPECT_EQ(text_at(parsed, "a"), "3");
  ASSERT_EQ(parsed.problems.size(), 1);
  EXPECT_EQ(parsed.problems[0].rule, "duplicate-key");
  EXPECT_EQ(parsed.problems[0].severity, Severity::kWarning);
  EXPECT_EQ(parsed.problems[0].position.line, 3);
}

TEST(ParseYaml, KnowsTheTagsOfASafeLoader) {
  const ParsedYaml parsed =
      parse("a: !!float 1e-4\nb: !!str 5\nc: ! 5\nd: !!int '7'\n");
  ASSERT_TRUE(parsed.problems.empty());
  EXPECT_EQ(text_at(parsed, "a"), "0.0001");
  EXPECT_EQ(text_at(parsed, "b"), "\"5\"");
  EXPECT_EQ(text_at(parsed, "d"), "7");
  EXPECT_THAT(first_message("a: !!python/object:os.system ls\n"),
              HasSubstr("the tag"));
  EXPECT_THAT(first_message("a: !!int x\n"), HasSubstr("is no int"));
}

TEST(ParseYaml, RefusesWhatIsNoConfig) {
  EXPECT_THAT(first_message(""), HasSubstr("holds nothing"));
  EXPECT_THAT(first_message("# only this\n"), HasSubstr("holds nothing"));
  EXPECT_THAT(first_message("- 1\n- 2\n"), HasSubstr("a table of keys"));
  EXPECT_THAT(first_message("a: 1\n---\nb: 2\n"), HasSubstr("second document"));
  EXPECT_THAT(first_message("[a]: 1\n"), HasSubstr("no key"));
  EXPECT_FALSE(first_message("a: [1, 2\n").empty());
  EXPECT_FALSE(first_message("a: 'x\n").empty());
  EXPECT_FALSE(first_message("a: 1\n  b: 2\n").empty());
  EXPECT_THAT(first_message("a: 1\nb\n"), HasSubstr("missing"));
  EXPECT_THAT(first_message("a:\n\tb: 1\n"), HasSubstr("a tab"));
}

TEST(ParseYaml, RefusesBytesThatAreNoText) {
  EXPECT_THAT(first_message(std::string("a: 1\0\n", 6)), HasSubstr("U+0000"));
  EXPECT_THAT(first_message("a: \xff\n"), HasSubstr("0xff"));
  EXPECT_THAT(first_message("a: \xc0\x80\n"), HasSubstr("0xc0"));
  EXPECT_THAT(first_message("a: \xed\xa0\x80\n"), HasSubstr("0xed"));
  EXPECT_THAT(first_message("a: \xe2\x82"), HasSubstr("0xe2"));
  EXPECT_TRUE(
      parse("a: \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\n").problems.empty());
}

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += part;
  }
  return text;
}

TEST(ParseYaml, BoundsTheNestingBeforeItParses) {
  const int many = 100000;
  for (const std::string part : {"[", "{a: ", "- ", "? ", "[']', ", "&a ["}) {
    EXPECT_THAT(first_message("a: 1\nb:\n  " + repeated(part, many)),
                HasSubstr("levels deep"))
        << part;
  }
  std::string indents;
  for (int i = 0; i < 200; ++i) {
    indents += std::string(i, ' ') + "k:\n";
  }
  EXPECT_THAT(first_message(indents), HasSubstr("levels deep"));
  // Brackets of quoted texts and block scalars are no nesting.
  EXPECT_TRUE(parse("a: '" + repeated("[", many) + "'\nb: |\n  " +
                    repeated("[", many) + "\nc: x" + repeated("[", many) + "\n")
                  .problems.empty());
}

TEST(ParseYaml, BoundsWhatAliasesStandFor) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
            repeated(last + ", ", 9) + last + "]\n";
  }
  EXPECT_THAT(first_message(text), HasSubstr("values"));
}

TEST(ParseYaml, ReadsManyEmptyKeysInOnePass) {
  std::string text;
  for (int i = 0; i < 90000; ++i) {
    text += "k" + std::to_string(i) + ":\n";
  }
  const ParsedYaml parsed = parse(text);
  EXPECT_TRUE(parsed.problems.empty());
  EXPECT_EQ(parsed.table.size(), 90000);
}

TEST(ParseYaml, BoundsTheSize) {
  const std::string huge = "a: " + std::string(100 << 20, 'x');
  EXPECT_THAT(first_message(huge), HasSubstr("is not read"));
}

}  // namespace
}  // namespace triax
