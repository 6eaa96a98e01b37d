// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/deepspeed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/foreign/deepspeed_parameters.h"
#include "triax/foreign/system.h"
#include "triax/foreign/versions.h"

namespace triax {
namespace {

constexpr const char* kFolder = TRIAX_SOURCE_DIR "/tests/foreign/deepspeed/";

// What tests/foreign/deepspeed_keys.py found in the package.
TEST(DeepSpeedKeys, HoldEveryKeyOfItsConfigClasses) {
  std::istringstream lines(
      read_file(kFolder + std::string("keys-0.19.8.txt"), 1 << 20));
  std::string line;
  int num_keys = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with('#')) {
      continue;
    }
    const std::string path = line.substr(0, line.find(' '));
    const KeyRow* row = deepspeed_keys().find(path);
    ASSERT_NE(row, nullptr) << path;
    const bool is_removed = line.ends_with(" removed");
    EXPECT_EQ(row->use == KeyUse::kRefused && !row->removed.empty(), is_removed)
        << path;
    ++num_keys;
  }
  EXPECT_GT(num_keys, 370);
}

TEST(DeepSpeedKeys, SayWhyAndStandInASection) {
  for (const KeyRow& row : deepspeed_keys().rows()) {
    const size_t dot = row.key.rfind('.');
    if (dot != std::string_view::npos) {
      EXPECT_NE(deepspeed_keys().find(row.key.substr(0, dot)), nullptr)
          << row.key;
    }
    if (row.use != KeyUse::kUsed) {
      EXPECT_NE(row.why, "") << row.key;
    }
    if (row.is_deprecated) {
      EXPECT_NE(deepspeed_keys().find(row.replacement), nullptr) << row.key;
    }
  }
}

const ParameterRow* find_row(const std::string& kind, const std::string& name) {
  const auto rows = kind == "optimizer" ? optimizer_parameter_rows()
                                        : schedule_parameter_rows();
  for (const ParameterRow& row : rows) {
    if (row.name == name) {
      return &row;
    }
  }
  return nullptr;
}

std::set<std::string> words_until(std::istringstream& words, const char* end) {
  std::set<std::string> found;
  std::string word;
  while (words >> word && word != end) {
    found.insert(word);
  }
  return found;
}

std::set<std::string> words_of(std::string_view text) {
  std::set<std::string> found;
  for (const std::string_view word : split_words(text)) {
    found.emplace(word);
  }
  return found;
}

// What tests/foreign/deepspeed_parameters.py found in the packages.
TEST(DeepSpeedParameters, AreThoseOfTheClassesThatItMakes) {
  std::istringstream lines(
      read_file(kFolder + std::string("parameters-0.19.8.txt"), 1 << 20));
  std::string line;
  size_t num_rows = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with('#')) {
      continue;
    }
    std::istringstream words(line);
    std::string kind;
    std::string name;
    words >> kind >> name;
    const ParameterRow* row = find_row(kind, name);
    ASSERT_NE(row, nullptr) << line;
    EXPECT_EQ(words_of(row->parameters), words_until(words, "|")) << name;
    EXPECT_EQ(words_of(row->needed), words_until(words, "")) << name;
    ++num_rows;
  }
  // 1-bit Adam and mup's are in other packages.
  EXPECT_EQ(
      num_rows + 6,
      optimizer_parameter_rows().size() + schedule_parameter_rows().size());
}

TEST(DeepSpeedParameters, FollowWhereTheStatesAre) {
  const auto class_of = [](const OptimizerChoice& choice) {
    const ParameterRow* row = find_optimizer_parameters(choice);
    return row == nullptr ? std::string_view("none") : row->class_name;
  };
  EXPECT_EQ(class_of({.type = "AdamW"}), "FusedAdam");
  EXPECT_EQ(class_of({.type = "adam", .is_offloaded = true}),
            "DeepSpeedCPUAdam");
  EXPECT_EQ(class_of({.type = "Adam", .is_torch_adam = true}),
            "torch.optim.AdamW");
  EXPECT_EQ(
      class_of({.type = "Adam", .is_torch_adam = true, .is_adam_w = false}),
      "torch.optim.Adam");
  EXPECT_EQ(class_of({.type = "Adagrad"}), "torch.optim.Adagrad");
  EXPECT_EQ(class_of({.type = "Lion", .is_offloaded = true}),
            "DeepSpeedCPULion");
  EXPECT_EQ(class_of({.type = "SGD"}), "torch.optim.SGD");
  EXPECT_EQ(class_of({.type = "sgd"}), "none");
  for (const std::string_view name : deepspeed_optimizers()) {
    EXPECT_NE(class_of({.type = std::string(name)}), "none") << name;
  }
}

TEST(Versions, AreThoseThatThereAreTablesFor) {
  EXPECT_EQ(resolve_version(System::kDeepSpeed, "0.14.0"), "0.14.0");
  EXPECT_EQ(resolve_version(System::kDeepSpeed, "0.14"), "0.14.5");
  EXPECT_EQ(resolve_version(System::kDeepSpeed, "0.19.8"), "");
  EXPECT_EQ(resolve_version(System::kDeepSpeed, "0.19"), "");
  EXPECT_EQ(resolve_version(System::kTorchTitan, "0.2.2"), "");
  EXPECT_EQ(resolve_version(System::kNanotron, "0.4"), "0.4");
  for (const char* wrong : {"9.9",
                            "abc",
                            "",
                            "0",
                            "0.14.6",
                            "0.12.5",
                            "0.14.",
                            "0.14.5.1",
                            "-0.14",
                            "0.14.5x",
                            "0.99999999999999999999"}) {
    try {
      resolve_version(System::kDeepSpeed, wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("0.14.0 to 0.14.5"));
    }
  }
  EXPECT_THROW(resolve_version(System::kMegatron, "1.0"), Error);
  EXPECT_THROW(resolve_version(System::kTriax, "1.0"), Error);
}

TEST(ReadDeepSpeed, RefusesARootThatIsNoTable) {
  const ForeignConfig list = read_deepspeed("[1]", "a.json");
  ASSERT_EQ(list.problems.size(), 1u);
  EXPECT_EQ(list.problems[0].rule, "syntax");
  const ForeignConfig base64 =
      read_deepspeed("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=\n", "a.json");
  ASSERT_EQ(base64.problems.size(), 1u);
  EXPECT_THAT(base64.problems[0].message, testing::HasSubstr("base64"));
  EXPECT_THAT(read_deepspeed("", "a.json").problems, testing::IsEmpty());
}

TEST(DeepSpeedFacts, SpeakTheSharedWords) {
  const ForeignConfig config = read_deepspeed(
      R"({"train_batch_size": 32, "gradient_accumulation_steps": 4,
          "train_micro_batch_size_per_gpu": "auto",
          "bf16": {"enabled": true},
          "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8,
            "offload_param": {"device": "cpu"}},
          "optimizer": {"type": "AdamW",
                        "params": {"lr": 1e-4, "betas": [0.9, 0.95]}}})",
      "a.json");
  const RunFacts facts = deepspeed_facts(config);
  EXPECT_EQ(*facts.global_batch, 32);
  EXPECT_FALSE(facts.microbatch);
  EXPECT_EQ(*facts.precision, "bf16");
  EXPECT_EQ(*facts.zero_stage, 3);
  EXPECT_EQ(*facts.offload_parameters, "cpu");
  EXPECT_EQ(*facts.offload_optimizer, "none");
  EXPECT_EQ(*facts.bucket_elements, 500000000);
  EXPECT_EQ(*facts.optimizer, "adamw");
  EXPECT_EQ(*facts.beta2, 0.95);
  EXPECT_EQ(*facts.clipping, 1.0);
  EXPECT_TRUE(facts.clipping.is_default);
  EXPECT_EQ(facts.global_batch.position.line, 1);
}

TEST(DetectSystem, KnowsADeepSpeedFile) {
  EXPECT_EQ(detect_system("x.json", "{\"zero_optimization\": {}}"),
            System::kDeepSpeed);
  EXPECT_EQ(detect_system("ds_config_zero3.json", "{}"), System::kDeepSpeed);
  EXPECT_EQ(detect_system("a.json", "{\"fp16\": {\"enabled\": true}}"),
            System::kDeepSpeed);
  EXPECT_EQ(detect_system("config.json", "{\"hidden_size\": 8}"), std::nullopt);
  EXPECT_EQ(detect_system("x.json", "{\"a\": {\"train_batch_size\": 1}}"),
            std::nullopt);
  EXPECT_EQ(detect_system("run.toml", "zero_optimization = 1"), std::nullopt);
}

}  // namespace
}  // namespace triax
