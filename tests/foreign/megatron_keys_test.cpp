// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "triax/base/file.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/megatron_keys.h"

namespace triax {
namespace {

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> columns;
  std::istringstream text(line);
  std::string column;
  while (std::getline(text, column, '\t')) {
    columns.push_back(column);
  }
  columns.resize(6);
  return columns;
}

// megatron_keys.tsv is what core_v0.19.2's own parser says it takes, by
// megatron_keys.py.
std::vector<std::vector<std::string>> parser_lines() {
  std::istringstream lines(
      read_file(TRIAX_SOURCE_DIR "/tests/foreign/megatron_keys.tsv", 1 << 20));
  std::vector<std::vector<std::string>> rows;
  std::string line;
  while (std::getline(lines, line)) {
    rows.push_back(columns_of(line));
  }
  return rows;
}

KeyType type_of(const std::vector<std::string>& columns) {
  if (columns[1] != "value") {
    return KeyType::kFlag;
  }
  return columns[2] == "int"     ? KeyType::kWhole
         : columns[2] == "float" ? KeyType::kNumber
                                 : KeyType::kText;
}

TEST(MegatronKeys, AreThoseOfItsOwnParser) {
  std::set<std::string> names;
  for (const std::vector<std::string>& columns : parser_lines()) {
    std::istringstream words(columns[0]);
    std::string name;
    while (words >> name) {
      names.insert(name);
      const MegatronRow* row = find_megatron_row(name);
      ASSERT_NE(row, nullptr) << name;
      EXPECT_EQ(row->item, type_of(columns)) << name;
      EXPECT_EQ(row->row.default_value, columns[3]) << name;
      EXPECT_EQ(row->row.choices, columns[4]) << name;
      EXPECT_EQ(row->count, columns[5]) << name;
      EXPECT_EQ(row->row.is_switch, columns[1] != "value") << name;
      EXPECT_NE(megatron_keys().find(name), nullptr) << name;
    }
  }
  EXPECT_GT(names.size(), 800u);
  for (const MegatronRow& row : megatron_parser_rows()) {
    EXPECT_TRUE(names.contains(std::string(row.row.key))) << row.row.key;
  }
}

TEST(MegatronKeys, NoArgumentIsBothTheParsersAndAForks) {
  for (const MegatronForkRow& row : megatron_fork_rows()) {
    EXPECT_EQ(find_megatron_row(row.key), nullptr) << row.key;
  }
}

TEST(MegatronKeys, NameTheirVersionAndRefuseWhatItRefuses) {
  EXPECT_EQ(megatron_keys().version(), "core_v0.19.2");
  for (const char* key : {"batch-size",
                          "warmup",
                          "model-parallel-size",
                          "checkpoint-activations"}) {
    EXPECT_EQ(megatron_keys().find(key)->use, KeyUse::kRefused) << key;
  }
}

}  // namespace
}  // namespace triax
