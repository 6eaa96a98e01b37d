// SPDX-License-Identifier: Apache-2.0
#include "triax/config/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "triax/base/file.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

class HfConfig : public testing::Test {
 protected:
  HfConfig() {
    std::string pattern = (fs::temp_directory_path() / "hf.XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~HfConfig() override { fs::remove_all(folder_); }

  LoadedConfig load(const std::string& json,
                    const std::vector<std::string>& keys = {}) {
    write_file_atomically((folder_ / "config.json").string(), json);
    std::vector<std::string> overrides = keys;
    overrides.push_back("model.hf=" + folder_.string());
    LoadedConfig loaded = parse_config("", "a.toml", overrides);
    resolve(loaded);
    return loaded;
  }

  // The one problem of `json`, or all of them.
  std::string problem_of(const std::string& json) {
    std::string text;
    for (const Problem& problem : load(json).problems) {
      text += problem.rule + ": " + problem.message + "\n";
    }
    return text;
  }

  fs::path folder_;
};

TEST_F(HfConfig, ReadsALlamaOfTransformers4) {
  const LoadedConfig loaded = load(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": true,
    "rope_theta": 500000.0, "torch_dtype": "bfloat16",
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
      "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"}, "eos_token_id": [1, 2]})");
  EXPECT_TRUE(loaded.problems.empty());
  const ModelConfig& model = loaded.config.model;
  EXPECT_EQ(model.family, ModelFamily::kLlama);
  EXPECT_EQ(model.vocab_size, 128256);
  EXPECT_EQ(model.intermediate_size, 8192);
  EXPECT_EQ(model.num_key_value_heads, 8);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(model.rope_theta, 500000.0);
  EXPECT_EQ(model.rope_scaling.type, "llama3");
  EXPECT_EQ(model.rope_scaling.factor, 32.0);
  EXPECT_THAT(loaded.derived.at("model.hidden_size"),
              testing::HasSubstr("config.json"));
}

TEST_F(HfConfig, ReadsTheRopeKeysOfTransformers5) {
  const LoadedConfig loaded = load(R"({"model_type": "llama",
    "dtype": "bfloat16", "rope_parameters": {"rope_type": "llama3",
    "rope_theta": 250000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0}})");
  EXPECT_TRUE(loaded.problems.empty());
  const ModelConfig& model = loaded.config.model;
  EXPECT_EQ(model.rope_theta, 250000.0);
  // Falls back to max_position_embeddings, whose default is 2048.
  EXPECT_EQ(model.rope_scaling.original_max_position_embeddings, 2048);
}

TEST_F(HfConfig, LlamaHasTransformersDefaults) {
  const LoadedConfig loaded = load(R"({"model_type": "llama"})");
  const ModelConfig& model = loaded.config.model;
  EXPECT_EQ(model.vocab_size, 32000);
  EXPECT_EQ(model.hidden_size, 4096);
  EXPECT_EQ(model.intermediate_size, 11008);
  EXPECT_EQ(model.num_hidden_layers, 32);
  EXPECT_EQ(model.num_key_value_heads, 32);
  EXPECT_EQ(model.max_position_embeddings, 2048);
  EXPECT_EQ(model.rope_theta, 10000.0);
  EXPECT_EQ(model.rope_scaling.type, "default");
  EXPECT_FALSE(model.tie_word_embeddings);
}

TEST_F(HfConfig, ReadsGpt2WithItsOwnNamesAndDefaults) {
  const LoadedConfig loaded =
      load(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 48,
               "n_layer": 3, "n_head": 4, "n_positions": 64, "n_ctx": 64,
               "n_inner": null, "activation_function": "gelu_new",
               "resid_pdrop": 0.0})");
  EXPECT_TRUE(loaded.problems.empty());
  const ModelConfig& model = loaded.config.model;
  EXPECT_EQ(model.family, ModelFamily::kGpt2);
  EXPECT_EQ(model.hidden_size, 48);
  EXPECT_EQ(model.intermediate_size, 192);
  EXPECT_EQ(model.num_hidden_layers, 3);
  EXPECT_EQ(model.max_position_embeddings, 64);
  EXPECT_EQ(model.vocab_size, 50257);
  EXPECT_TRUE(model.tie_word_embeddings);
  EXPECT_EQ(model.norm_eps, 1e-5);
  EXPECT_EQ(model.resid_pdrop, 0.0);
  EXPECT_EQ(model.attn_pdrop, 0.1);
}

TEST_F(HfConfig, AKeyBesideItWinsAndIsNoted) {
  const LoadedConfig loaded =
      load(R"({"model_type": "gpt2"})",
           {"model.attn_pdrop=0.0", "model.vocab_size=50257"});
  EXPECT_EQ(loaded.config.model.attn_pdrop, 0.0);
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].rule, "hf-override");
  EXPECT_EQ(loaded.problems[0].severity, Severity::kNote);
  EXPECT_EQ(loaded.problems[0].field, "model.attn_pdrop");
}

TEST_F(HfConfig, RefusesWhatWouldComputeSomethingElse) {
  const auto refuses = [&](const std::string& json, const std::string& words) {
    const std::string text = problem_of(json);
    EXPECT_THAT(text, testing::HasSubstr(words)) << json;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  };
  refuses(R"({"model_type": "qwen3"})", "model_type \"qwen3\"");
  refuses(R"({"architectures": ["MistralForCausalLM"]})", "Mistral");
  refuses(R"({})", "model_type \"\"");
  refuses("[]", "no JSON object");
  refuses(R"({"model_type": "llama", "attention_bias": true})",
          "attention_bias = true");
  refuses(R"({"model_type": "llama", "mlp_bias": true})", "mlp_bias");
  refuses(R"({"model_type": "llama", "hidden_act": "gelu"})", "gelu");
  refuses(R"({"model_type": "llama", "sliding_window": 4096})",
          "sliding_window");
  refuses(R"({"model_type": "llama", "rope_scaling": {"type": "linear",
              "factor": 2.0}})",
          "linear");
  refuses(R"({"model_type": "llama", "rope_parameters": {"rope_type": "yarn",
              "factor": 2.0}})",
          "yarn");
  refuses(R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3",
              "low_freq_factor": 1.0, "high_freq_factor": 4.0}})",
          "needs factor");
  refuses(R"({"model_type": "llama", "num_local_experts": 8})", "no-experts");
  refuses(R"({"model_type": "llama", "quantization_config": {"bits": 4}})",
          "quantised");
  refuses(R"({"model_type": "llama", "hidden_size": "big"})", "hidden_size");
  refuses(R"({"model_type": "llama", "hidden_size": 18446744073709551615})",
          "hidden_size");
  refuses(R"({"model_type": "llama", "hidden_size": [1]})", "hidden_size");
  refuses(R"({"model_type": "llama", "vocab_size": 1, "vocab_size": 2})",
          "twice");
  refuses(R"({"model_type": "gpt2", "activation_function": "relu"})", "relu");
  refuses(R"({"model_type": "gpt2", "n_embd": 48, "hidden_size": 64})",
          "differ");
  refuses(R"({"model_type": "gpt2", "scale_attn_weights": false})",
          "scale_attn_weights");
  refuses("{", "config.json");
  refuses(std::string(100'000, '['), "64 levels");
  refuses(std::string(2 << 20, ' '), "bytes");
}

TEST_F(HfConfig, UnknownKeysAreANote) {
  const LoadedConfig loaded =
      load(R"({"model_type": "llama", "my_key": 1, "use_cache": true})");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].rule, "hf-unknown-key");
  EXPECT_EQ(loaded.problems[0].severity, Severity::kNote);
  EXPECT_THAT(loaded.problems[0].message, testing::HasSubstr("my_key"));
}

TEST(HfConfigFile, IsNamedWhenItIsNotThere) {
  const LoadedConfig loaded =
      parse_config("[model]\nhf = \"no/where\"", "a.toml");
  ASSERT_EQ(loaded.problems.size(), 1u);
  EXPECT_EQ(loaded.problems[0].rule, "hf-config");
  EXPECT_EQ(loaded.problems[0].position, (Position{"a.toml", 2, 6}));
  EXPECT_THAT(loaded.problems[0].message, testing::HasSubstr("no/where"));
}

}  // namespace
}  // namespace triax
