// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/nanotron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "triax/foreign/system.h"

namespace triax {
namespace {

// The file is what tests/foreign/nanotron_verdicts.py --keys lists of 0.4.
TEST(NanotronKeys, AreThoseOfThePackage) {
  std::ifstream in(TRIAX_SOURCE_DIR "/tests/foreign/nanotron_keys.tsv");
  std::set<std::string> listed;
  std::string line;
  while (std::getline(in, line)) {
    listed.insert(line);
    EXPECT_NE(nanotron_old_keys().find(line), nullptr) << line;
  }
  EXPECT_GE(listed.size(), 150);
  for (const KeyRow& row : nanotron_old_keys().rows()) {
    EXPECT_TRUE(listed.contains(std::string(row.key))) << row.key;
  }
}

TEST(NanotronKeys, NameWhatTookTheirPlace) {
  for (const KeyRow& row : nanotron_keys().rows()) {
    EXPECT_TRUE(row.use == KeyUse::kUsed || !row.why.empty()) << row.key;
    EXPECT_TRUE(row.replacement.empty() ||
                nanotron_keys().find(row.replacement) != nullptr)
        << row.key;
  }
}

constexpr std::string_view kRun = R"(
general: {project: x}
parallelism: {dp: 4, pp: 2, tp: 2, pp_engine: 1f1b, tp_mode: REDUCE_SCATTER}
model:
  dtype: bfloat16
  model_config:
    is_qwen2_config: true
    num_attention_heads: 8
    num_hidden_layers: 4
optimizer:
  zero_stage: 3
  clip_grad: null
  learning_rate_scheduler: {learning_rate: 3.0e-4}
tokens:
  micro_batch_size: 2
  batch_accumulation_per_replica: 8
  sequence_length: 4096
  train_steps: 100
)";

TEST(NanotronFacts, AreWhatTheConfigSays) {
  const ForeignConfig config = read_nanotron(kRun, "run.yaml");
  EXPECT_THAT(config.problems, testing::IsEmpty());
  const RunFacts facts = nanotron_facts(config);
  EXPECT_EQ(*facts.tp, 2);
  EXPECT_EQ(*facts.dp, 4);
  EXPECT_EQ(*facts.cp, 1);
  EXPECT_FALSE(facts.cp.is_set());
  EXPECT_TRUE(*facts.sequence_parallel);
  EXPECT_EQ(*facts.microbatch, 2);
  EXPECT_EQ(*facts.accumulation, 8);
  EXPECT_EQ(*facts.schedule, "1f1b");
  EXPECT_EQ(*facts.zero_stage, 1);
  EXPECT_EQ(*facts.clipping, 0.0);
  EXPECT_EQ(*facts.kv_heads, 8);
  EXPECT_DOUBLE_EQ(*facts.lr, 3e-4);
  EXPECT_EQ(*facts.precision, "bf16");
  EXPECT_EQ(nanotron_model_class(config), "qwen2");
  EXPECT_FALSE(is_old_nanotron(config));
}

TEST(NanotronLikeness, TellsItFromOtherYaml) {
  EXPECT_EQ(detect_system("run.yaml", kRun), System::kNanotron);
  EXPECT_LT(nanotron_likeness("ci.yaml", "on: push\njobs: {}\n"), 20);
  EXPECT_EQ(nanotron_likeness("run.json", kRun), 0);
}

}  // namespace
}  // namespace triax
