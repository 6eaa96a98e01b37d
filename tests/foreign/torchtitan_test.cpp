// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/torchtitan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "triax/foreign/system.h"

namespace triax {
namespace {

std::vector<std::vector<std::string>> listed() {
  std::ifstream in(TRIAX_SOURCE_DIR "/tests/foreign/torchtitan_keys.tsv");
  std::vector<std::vector<std::string>> lines;
  std::string line;
  while (std::getline(in, line)) {
    std::vector<std::string> parts;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find('\t', at), line.size());
      parts.push_back(line.substr(at, end - at));
      at = end + 1;
    }
    lines.push_back(parts);
  }
  return lines;
}

std::string_view type_word(KeyType type) {
  switch (type) {
    case KeyType::kFlag:
      return "flag";
    case KeyType::kWhole:
      return "whole";
    case KeyType::kNumber:
      return "number";
    case KeyType::kText:
      return "text";
    case KeyType::kList:
      return "list";
    case KeyType::kTable:
      return "table";
    default:
      return "any";
  }
}

// The file is what tests/foreign/torchtitan_keys.py lists of the package.
TEST(TorchTitanKeys, AreThoseOfJobConfig) {
  std::set<std::string> known;
  for (const auto& parts : listed()) {
    if (parts[0] == "shipped") {
      continue;
    }
    const KeyRow* row = torchtitan_keys().find(parts[0]);
    ASSERT_NE(row, nullptr) << parts[0];
    EXPECT_NE(row->use, KeyUse::kRefused) << parts[0];
    EXPECT_EQ(type_word(row->type), parts[1]) << parts[0];
    EXPECT_EQ(row->default_value, parts[2]) << parts[0];
    for (const std::string_view choice : split_words(parts[3])) {
      EXPECT_THAT(split_words(row->choices), testing::Contains(choice));
    }
    known.insert(parts[0]);
  }
  EXPECT_GE(known.size(), 170);
  for (const KeyRow& row : torchtitan_keys().rows()) {
    EXPECT_EQ(row.use != KeyUse::kRefused, known.contains(std::string(row.key)))
        << row.key;
    EXPECT_TRUE(row.use == KeyUse::kUsed || !row.why.empty()) << row.key;
    EXPECT_TRUE(row.replacement.empty() ||
                known.contains(std::string(row.replacement)))
        << row.key;
  }
}

TEST(TorchTitanModels, AreThoseOfThePackage) {
  size_t count = 0;
  for (const auto& parts : listed()) {
    if (parts[0] != "shipped") {
      continue;
    }
    const auto& model = torchtitan_models()[count++];
    EXPECT_EQ(model.name, parts[1]);
    EXPECT_EQ(model.flavor, parts[2]);
    EXPECT_EQ(std::to_string(model.layers), parts[3]);
    EXPECT_EQ(std::to_string(model.heads), parts[4]);
    EXPECT_EQ(std::to_string(model.kv_heads), parts[5]);
    EXPECT_EQ(std::to_string(model.dim), parts[6]);
    EXPECT_EQ(std::to_string(model.vocabulary), parts[7]);
    const TorchTitanDetails details = torchtitan_details(model);
    EXPECT_EQ(fmt::format("{:g}", details.norm_eps), parts[8]);
    EXPECT_EQ(fmt::format("{:g}", details.rope_theta), parts[9]);
    EXPECT_EQ(details.rope_scaling.empty()
                  ? std::string("none")
                  : fmt::format("{} {:g}{}",
                                details.rope_scaling,
                                details.rope_factor,
                                details.is_usual ? "" : " unusual"),
              parts[10])
        << model.name << " " << model.flavor;
  }
  EXPECT_EQ(count, torchtitan_models().size());
}

constexpr std::string_view kRun = R"(
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
seq_len = 8192
steps = 1000
[optimizer]
lr = 3e-4
[lr_scheduler]
min_lr_factor = 0.1
[parallelism]
tensor_parallel_degree = 8
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
)";

TEST(TorchTitanFacts, AreWhatTheConfigSays) {
  const ForeignConfig config = read_torchtitan(kRun, "run.toml");
  EXPECT_THAT(config.problems, testing::IsEmpty());
  const RunFacts facts = torchtitan_facts(config);
  EXPECT_EQ(*facts.tp, 8);
  EXPECT_TRUE(facts.tp.is_set());
  EXPECT_EQ(*facts.pp, 1);
  EXPECT_FALSE(facts.pp.is_set());
  EXPECT_EQ(*facts.dp, 8);
  EXPECT_EQ(*facts.dp_shards, 4);
  EXPECT_EQ(*facts.microbatch, 4);
  EXPECT_FALSE(facts.global_batch);
  EXPECT_EQ(*facts.layers, 32);
  EXPECT_EQ(*facts.kv_heads, 8);
  EXPECT_EQ(*facts.sequence, 8192);
  EXPECT_EQ(*facts.zero_stage, 3);
  EXPECT_EQ(*facts.precision, "bf16");
  EXPECT_DOUBLE_EQ(*facts.min_lr, 3e-5);
  EXPECT_EQ(*facts.recompute, "selective");
}

TEST(TorchTitanFacts, CutTheLocalBatchUnderAPipeline) {
  const RunFacts facts = torchtitan_facts(
      read_torchtitan("[parallelism]\npipeline_parallel_degree = 2\n"
                      "pipeline_parallel_microbatch_size = 2\n"
                      "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
                      "run.toml"));
  EXPECT_EQ(*facts.microbatch, 2);
  EXPECT_EQ(*facts.accumulation, 4);
  EXPECT_EQ(*facts.schedule, "interleaved");
  EXPECT_EQ(*facts.chunks, 2);
  EXPECT_EQ(*facts.zero_stage, 2);
  EXPECT_FALSE(facts.dp);
}

TEST(TorchTitanLikeness, TellsItFromTriax) {
  EXPECT_EQ(detect_system("run.toml", kRun), System::kTorchTitan);
  EXPECT_EQ(detect_system("run.toml", "[run]\ndir = \"x\"\n[parallel]\n"),
            System::kTriax);
  EXPECT_EQ(torchtitan_likeness("run.json", kRun), 0);
}

}  // namespace
}  // namespace triax
