// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/logical_parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/plan/models.h"

namespace triax {
namespace {

using Shape = std::vector<int64_t>;

std::map<std::string, LogicalParameter> by_name(const ModelConfig& model) {
  std::map<std::string, LogicalParameter> map;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    EXPECT_TRUE(map.emplace(parameter.name, parameter).second)
        << parameter.name;
  }
  return map;
}

// The names and shapes of transformers' LlamaForCausalLM.
TEST(LogicalParameters, LlamaHasHuggingFacesNamesAndShapes) {
  ModelConfig model = llama_model(100, 2, 16, 40, 4, 2);
  model.head_dim = 8;  // heads * head_dim is not hidden, as in Qwen3
  const auto map = by_name(model);
  ASSERT_EQ(map.size(), 3u + 2 * 9);
  EXPECT_EQ(map.at("model.embed_tokens.weight").shape, (Shape{100, 16}));
  EXPECT_EQ(map.at("model.norm.weight").shape, (Shape{16}));
  EXPECT_EQ(map.at("lm_head.weight").shape, (Shape{100, 16}));
  const std::map<std::string, Shape> layer = {
      {"input_layernorm.weight", {16}},
      {"self_attn.q_proj.weight", {32, 16}},
      {"self_attn.k_proj.weight", {16, 16}},
      {"self_attn.v_proj.weight", {16, 16}},
      {"self_attn.o_proj.weight", {16, 32}},
      {"post_attention_layernorm.weight", {16}},
      {"mlp.gate_proj.weight", {40, 16}},
      {"mlp.up_proj.weight", {40, 16}},
      {"mlp.down_proj.weight", {16, 40}},
  };
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, shape] : layer) {
      const auto& parameter =
          map.at("model.layers." + std::to_string(i) + "." + name);
      EXPECT_EQ(parameter.shape, shape) << name;
      EXPECT_EQ(parameter.layer, i);
    }
  }
}

// The names and shapes of transformers' GPT2LMHeadModel: Conv1D is [in, out].
TEST(LogicalParameters, Gpt2HasHuggingFacesNamesAndShapes) {
  const auto map = by_name(gpt2_model(100, 2, 16, 4, 32));
  ASSERT_EQ(map.size(), 4u + 2 * 12);
  EXPECT_EQ(map.at("transformer.wte.weight").shape, (Shape{100, 16}));
  EXPECT_EQ(map.at("transformer.wpe.weight").shape, (Shape{32, 16}));
  EXPECT_EQ(map.at("transformer.ln_f.weight").shape, (Shape{16}));
  EXPECT_EQ(map.at("transformer.ln_f.bias").shape, (Shape{16}));
  const std::map<std::string, Shape> layer = {
      {"ln_1.weight", {16}},
      {"ln_1.bias", {16}},
      {"attn.c_attn.weight", {16, 48}},
      {"attn.c_attn.bias", {48}},
      {"attn.c_proj.weight", {16, 16}},
      {"attn.c_proj.bias", {16}},
      {"ln_2.weight", {16}},
      {"ln_2.bias", {16}},
      {"mlp.c_fc.weight", {16, 64}},
      {"mlp.c_fc.bias", {64}},
      {"mlp.c_proj.weight", {64, 16}},
      {"mlp.c_proj.bias", {16}},
  };
  for (const auto& [name, shape] : layer) {
    EXPECT_EQ(map.at("transformer.h.1." + name).shape, shape) << name;
  }
}

TEST(LogicalParameters, ATiedHeadIsStoredOnce) {
  ModelConfig model = llama_model(100, 2, 16, 40, 4, 2);
  model.tie_word_embeddings = true;
  EXPECT_EQ(by_name(model).count("lm_head.weight"), 0u);
  model = gpt2_small();
  EXPECT_EQ(by_name(model).count("lm_head.weight"), 0u);
  model.tie_word_embeddings = false;
  EXPECT_EQ(by_name(model).at("lm_head.weight").role, ParameterRole::kHead);
}

TEST(LogicalParameters, BeginAsTransformersDrawsThem) {
  ModelConfig model = gpt2_model(100, 8, 16, 4, 32);
  model.initializer_range = 0.04;
  const auto map = by_name(model);
  EXPECT_EQ(map.at("transformer.wte.weight").initial.normal_std, 0.04);
  EXPECT_EQ(map.at("transformer.wpe.weight").initial.normal_std, 0.04);
  EXPECT_EQ(map.at("transformer.h.3.attn.c_attn.weight").initial.normal_std,
            0.04);
  EXPECT_DOUBLE_EQ(
      map.at("transformer.h.3.attn.c_proj.weight").initial.normal_std, 0.01);
  EXPECT_DOUBLE_EQ(
      map.at("transformer.h.3.mlp.c_proj.weight").initial.normal_std, 0.01);
  EXPECT_EQ(map.at("transformer.h.3.ln_1.weight").initial,
            (InitialValue{.normal_std = 0.0, .constant = 1.0}));
  EXPECT_EQ(map.at("transformer.h.3.ln_1.bias").initial, InitialValue{});
  EXPECT_EQ(map.at("transformer.h.3.mlp.c_fc.bias").initial, InitialValue{});
  const auto llama = by_name(llama_model(100, 8, 16, 40, 4, 2));
  EXPECT_EQ(llama.at("model.layers.3.mlp.down_proj.weight").initial.normal_std,
            0.02);
  EXPECT_EQ(llama.at("model.norm.weight").initial.constant, 1.0);
}

TEST(LogicalParameters, AnUnresolvedModelIsOurMistake) {
  EXPECT_THROW(logical_parameters(ModelConfig{}), std::logic_error);
}

}  // namespace
}  // namespace triax
