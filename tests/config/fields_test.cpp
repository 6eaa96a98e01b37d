// SPDX-License-Identifier: Apache-2.0
#include "triax/config/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "triax/base/file.h"
#include "triax/config/docs.h"
#include "triax/config/load.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

const std::string kDocs = std::string(TRIAX_SOURCE_DIR) + "/docs/";

TEST(Fields, KeysAreUniqueAndSectionsStandTogether) {
  std::set<std::string_view> keys;
  std::set<std::string_view> closed;
  std::string_view section;
  for (const Field& field : fields()) {
    EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    if (field.section() != section) {
      closed.insert(section);
      section = field.section();
    }
    if (field.is_read()) {
      EXPECT_FALSE(closed.contains(section)) << field.key;
    }
    EXPECT_FALSE(field.help.empty()) << field.key;
    EXPECT_FALSE(field.help.ends_with('.')) << field.key;
    EXPECT_TRUE(is_rule(field.refused_by)) << field.key;
  }
}

// A value that the field takes and that is not its default.
std::string another_value(const Field& field) {
  for (const std::string_view choice : field.choices) {
    const bool is_list =
        std::holds_alternative<MemberOf<std::vector<std::string>>>(
            field.member);
    const std::string quoted = "\"" + std::string(choice) + "\"";
    const std::string text = is_list ? "[" + quoted + "]" : quoted;
    if (text != print_value(field, RunConfig{})) {
      return text;
    }
  }
  if (std::holds_alternative<SpecialMember>(field.member)) {
    return field.key == "data.validation"   ? "0.5"
           : field.key == "parallel.stages" ? "[1, 3]"
                                            : "[{ pattern = \"*\", lr = 1.0 }]";
  }
  if (std::holds_alternative<MemberOf<bool>>(field.member)) {
    return print_value(field, RunConfig{}) == "true" ? "false" : "true";
  }
  if (std::holds_alternative<MemberOf<std::string>>(field.member)) {
    return "\"another\"";
  }
  if (std::holds_alternative<MemberOf<std::vector<double>>>(field.member)) {
    return "[0.25, 0.75]";
  }
  if (std::holds_alternative<MemberOf<std::vector<std::string>>>(
          field.member)) {
    return "[\"another\"]";
  }
  if (std::holds_alternative<MemberOf<double>>(field.member)) {
    return field.bounds.min >= 1 ? "2.5" : "0.75";
  }
  return std::to_string(std::min<int64_t>(3, field.max_built));
}

TEST(Fields, EachOneChangesItsMemberAlone) {
  for (const Field& field : fields()) {
    if (!field.is_read() || field.is_default_only ||
        field.choices.size() == 1 || field.key == "model.hf") {
      continue;
    }
    const std::string value = another_value(field);
    const LoadedConfig loaded =
        parse_config("", "a", {std::string(field.key) + "=" + value});
    ASSERT_TRUE(loaded.problems.empty()) << field.key << " = " << value << ": "
                                         << to_text(loaded.problems.front());
    const std::string printed = print_value(field, loaded.config);
    EXPECT_NE(printed, print_value(field, RunConfig{})) << field.key;
    for (const Field& other : fields()) {
      const bool is_same_link = field.section() == other.section() &&
                                field.section().starts_with("comm.emulate");
      if (&other != &field && !is_same_link) {
        EXPECT_EQ(print_value(other, loaded.config),
                  print_value(other, RunConfig{}))
            << field.key << " changes " << other.key;
      }
    }
  }
}

TEST(Fields, AnEnumerationsChoiceHasItsWord) {
  RunConfig config;
  EXPECT_EQ(chosen("training.precision", config), "fp32");
  config.training.precision = Precision::kBf16Autocast;
  config.memory.recompute = Recompute::kEveryK;
  EXPECT_EQ(chosen("training.precision", config), "bf16_autocast");
  EXPECT_EQ(chosen("memory.recompute", config), "every_k");
}

TEST(Fields, ADefaultThatIsWrittenOutChangesNothing) {
  for (const Field& field : fields()) {
    const std::string value = print_value(field, RunConfig{});
    if (value.empty()) {
      continue;
    }
    const LoadedConfig loaded =
        parse_config("", "a", {std::string(field.key) + "=" + value});
    EXPECT_TRUE(loaded.problems.empty()) << field.key << " = " << value;
    EXPECT_EQ(loaded.config, RunConfig{}) << field.key;
  }
}

TEST(Fields, TheCommittedPageIsTheTable) {
  EXPECT_EQ(read_file(kDocs + "config.md", 1 << 20), config_page())
      << "run `build/bin/triax docs config > docs/config.md`";
}

TEST(Fields, TheHelpNamesEveryKey) {
  const std::string help = keys_help();
  for (const Field& field : fields()) {
    if (field.is_read()) {
      EXPECT_THAT(help,
                  testing::HasSubstr("  " + std::string(field.key) + "\n"));
    }
  }
}

// Every line of the design's run file, and whether it does something yet.
TEST(Fields, EveryKeyOfTheDesignIsTakenOrRefusedByName) {
  const LoadedConfig loaded = load_config(std::string(TRIAX_SOURCE_DIR) +
                                          "/tests/config/design_sample.toml");
  std::vector<std::string> refused;
  for (const Problem& problem : loaded.problems) {
    EXPECT_EQ(problem.rule, "not-built") << to_text(problem);
    refused.push_back(problem.field);
  }
  EXPECT_THAT(refused, testing::ElementsAre("checkpoint.every"));
  EXPECT_EQ(loaded.config.memory.limit, int64_t{2} << 30);
  EXPECT_EQ(loaded.config.model.num_key_value_heads, 4);
  EXPECT_EQ(loaded.config.comm.emulate.at("dp").latency_seconds, 2e-3);
  EXPECT_EQ(loaded.config.run.dir, "runs/kjv");
}

TEST(Rules, EachHasItsPageAndEachPageItsRule) {
  std::set<std::string> pages;
  for (const auto& entry :
       std::filesystem::directory_iterator(kDocs + "rules")) {
    if (entry.path().filename() != "README.md") {
      pages.insert(entry.path().stem().string());
    }
  }
  std::set<std::string> ids;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(ids.insert(std::string(rule.id)).second) << rule.id;
  }
  EXPECT_EQ(pages, ids);
  for (const std::string& id : ids) {
    const std::string page = read_file(kDocs + "rules/" + id + ".md", 1 << 16);
    EXPECT_THAT(page, testing::StartsWith("# " + id + "\n"));
    EXPECT_THAT(page, testing::HasSubstr("## Example"));
    EXPECT_THAT(page, testing::HasSubstr("## The way out"));
  }
  EXPECT_EQ(read_file(kDocs + "rules/README.md", 1 << 20), rules_page())
      << "run `build/bin/triax docs rules > docs/rules/README.md`";
}

}  // namespace
}  // namespace triax
