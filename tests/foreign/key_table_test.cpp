// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/key_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/foreign/run_facts.h"
#include "triax/foreign/system.h"

namespace triax {
namespace {

using testing::ElementsAre;

constexpr KeyRow kRows[] = {
    {.key = "batch", .type = KeyType::kWhole, .default_value = "1"},
    {.key = "zero", .type = KeyType::kTable},
    {.key = "zero.stage", .type = KeyType::kWhole, .aliases = "level|tier"},
    {.key = "zero.gone", .use = KeyUse::kRefused, .removed = "2"},
    {.key = "specs.*.name", .type = KeyType::kText},
};

TEST(KeyTable, FindsRowsByNameAliasAndStar) {
  const KeyTable table("1", kRows);
  EXPECT_EQ(table.find("zero.stage"), &kRows[2]);
  EXPECT_EQ(table.find("zero.tier"), &kRows[2]);
  EXPECT_EQ(table.find("specs.0.name"), &kRows[4]);
  EXPECT_EQ(table.find("specs.name"), nullptr);
  EXPECT_EQ(table.find("specs.0.name.x"), nullptr);
  EXPECT_EQ(table.find("stage"), nullptr);
  EXPECT_TRUE(table.is_section("zero"));
  EXPECT_FALSE(table.is_section("zer"));
  EXPECT_FALSE(table.is_section("batch"));
}

TEST(KeyTable, NamesWhatASlipMayHaveMeant) {
  const KeyTable table("1", kRows);
  EXPECT_THAT(table.names_in(""), ElementsAre("batch", "zero"));
  EXPECT_THAT(table.names_in("zero"), ElementsAre("stage", "level", "tier"));
  EXPECT_THAT(table.names_in("specs.0"), ElementsAre("name"));
  EXPECT_THAT(table.places_of("stage"), ElementsAre("zero.stage"));
}

TEST(KeyTable, ComparesVersions) {
  EXPECT_LT(compare_versions("0.9.5", "0.12.6"), 0);
  EXPECT_EQ(compare_versions("0.12.6", "0.12.6"), 0);
  EXPECT_GT(compare_versions("1", "0.99.99"), 0);
  EXPECT_EQ(compare_versions("x", ""), 0);
  EXPECT_LT(compare_versions("0.19.6+cu12", "0.19.8"), 0);
}

TEST(RunFacts, HoldThePlaceAndTheType) {
  ForeignConfig config;
  config.file = "a.json";
  ConfigTable inner;
  inner.push_back({"stage", {"a.json", 2, 3}, {5e8, {"a.json", 2, 10}}});
  config.table.push_back({"zero", {}, {inner, {}}});
  const Whole stage = whole_at(config, "zero.stage");
  ASSERT_TRUE(stage);
  EXPECT_EQ(*stage, 500000000);
  EXPECT_EQ(stage.position, (Position{"a.json", 2, 10}));
  EXPECT_FALSE(word_at(config, "zero.stage"));
  EXPECT_FALSE(whole_at(config, "zero.level"));
  const Whole level = or_default<int64_t>(
      whole_at(config, "zero.level"), config, "zero.level", 7);
  EXPECT_EQ(*level, 7);
  EXPECT_TRUE(level.is_default);
}

TEST(System, NamesAreReadBack) {
  for (const System system : {System::kTriax,
                              System::kDeepSpeed,
                              System::kMegatron,
                              System::kTorchTitan,
                              System::kNanotron}) {
    EXPECT_EQ(parse_system(system_name(system)), system);
  }
  EXPECT_EQ(parse_system("keras"), std::nullopt);
}

}  // namespace
}  // namespace triax
