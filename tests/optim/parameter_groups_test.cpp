// SPDX-License-Identifier: Apache-2.0
#include "triax/optim/parameter_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "triax/base/error.h"

namespace triax {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ParameterLayout make_layout(const std::string& name,
                            ParameterRole role,
                            const std::vector<std::string>& logical_names) {
  ParameterLayout layout;
  layout.name = name;
  layout.role = role;
  for (const std::string& logical_name : logical_names) {
    Piece piece;
    piece.logical_name = logical_name;
    layout.pieces.push_back(piece);
  }
  return layout;
}

const std::string kLayer = "model.layers.0.";

ParameterLayout qkv() {
  return make_layout("blocks.0.attention.qkv.weight",
                     ParameterRole::kMatrix,
                     {kLayer + "self_attn.q_proj.weight",
                      kLayer + "self_attn.k_proj.weight",
                      kLayer + "self_attn.v_proj.weight"});
}

ParameterLayout norm() {
  return make_layout("blocks.0.norm1.weight",
                     ParameterRole::kNorm,
                     {kLayer + "input_layernorm.weight"});
}

ParameterLayout embedding() {
  return make_layout("embedding.weight",
                     ParameterRole::kEmbedding,
                     {"model.embed_tokens.weight"});
}

std::vector<ParameterLayout> model() {
  return {embedding(), qkv(), norm()};
}

OptimizerConfig make_config() {
  OptimizerConfig config;
  config.lr = 1e-3;
  config.weight_decay = 0.1;
  return config;
}

std::string error_of(const OptimizerConfig& config) {
  try {
    check_parameter_groups(config, model());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ParameterSetting, DecaysAllButNormsAndBiases) {
  const OptimizerConfig config = make_config();
  for (const auto& [role, decay] :
       std::vector<std::pair<ParameterRole, double>>{
           {ParameterRole::kEmbedding, 0.1},
           {ParameterRole::kPosition, 0.1},
           {ParameterRole::kMatrix, 0.1},
           {ParameterRole::kHead, 0.1},
           {ParameterRole::kBias, 0.0},
           {ParameterRole::kNorm, 0.0}}) {
    const auto setting =
        parameter_setting(config, make_layout("w", role, {"w"}));
    EXPECT_EQ(setting,
              (ParameterSetting{
                  .lr_scale = 1.0, .weight_decay = decay, .is_frozen = false}));
  }
}

TEST(ParameterSetting, LaterGroupsWinValueByValue) {
  OptimizerConfig config = make_config();
  config.group = {{.pattern = "*", .lr = 1e-4, .weight_decay = 0.3},
                  {.pattern = "*norm*", .lr = {}, .weight_decay = 0.02}};
  check_parameter_groups(config, model());
  EXPECT_NEAR(parameter_setting(config, qkv()).lr_scale, 0.1, 1e-15);
  EXPECT_EQ(parameter_setting(config, qkv()).weight_decay, 0.3);
  EXPECT_NEAR(parameter_setting(config, norm()).lr_scale, 0.1, 1e-15);
  EXPECT_EQ(parameter_setting(config, norm()).weight_decay, 0.02);
}

TEST(ParameterSetting, WhatAGroupLeavesOutStays) {
  OptimizerConfig config = make_config();
  config.group = {{.pattern = "*", .lr = 1e-4, .weight_decay = {}}};
  EXPECT_EQ(parameter_setting(config, qkv()).weight_decay, 0.1);
  EXPECT_EQ(parameter_setting(config, norm()).weight_decay, 0.0);
}

TEST(ParameterSetting, FreezingGoesBeforeGroups) {
  OptimizerConfig config = make_config();
  config.group = {{.pattern = "*embed*", .lr = 1e-4, .weight_decay = {}}};
  config.freeze = {"*.embed_tokens.*"};
  check_parameter_groups(config, model());
  EXPECT_TRUE(parameter_setting(config, embedding()).is_frozen);
  EXPECT_FALSE(parameter_setting(config, qkv()).is_frozen);
}

TEST(ParameterSetting, RefusesToSplitAStoredParameter) {
  OptimizerConfig config = make_config();
  config.freeze = {"*.q_proj.weight"};
  EXPECT_THAT(error_of(config),
              AllOf(HasSubstr("optimizer.freeze pattern \"*.q_proj.weight\""),
                    HasSubstr("blocks.0.attention.qkv.weight")));
  config.freeze.clear();
  config.group = {{.pattern = "*.k_proj.*", .lr = {}, .weight_decay = 0.0}};
  EXPECT_THAT(error_of(config),
              AllOf(HasSubstr("optimizer.group pattern \"*.k_proj.*\""),
                    HasSubstr("blocks.0.attention.qkv.weight")));
}

TEST(ParameterSetting, PatternsThatTogetherCoverAStoredParameterAreLegal) {
  OptimizerConfig config = make_config();
  config.freeze = {"*.q_proj.weight", "*.k_proj.weight", "*.v_proj.weight"};
  EXPECT_EQ(error_of(config), "no error");
  EXPECT_TRUE(parameter_setting(config, qkv()).is_frozen);
}

TEST(CheckParameterGroups, RefusesPatternsThatDoNothing) {
  OptimizerConfig config = make_config();
  config.freeze = {"*.embed_token.*"};
  EXPECT_THAT(error_of(config),
              AllOf(HasSubstr("\"*.embed_token.*\" matches no parameter"),
                    HasSubstr("model.embed_tokens.weight")));
  config.freeze.clear();
  config.group = {{.pattern = "*", .lr = {}, .weight_decay = {}}};
  EXPECT_THAT(error_of(config), HasSubstr("sets neither"));
  config.group = {{.pattern = "*", .lr = -1.0, .weight_decay = {}}};
  EXPECT_THAT(error_of(config), HasSubstr("must not be negative"));
  config.group = {{.pattern = "*", .lr = 1.0, .weight_decay = {}}};
  config.lr = 0.0;
  EXPECT_THAT(error_of(config), HasSubstr("optimizer.lr must then be above 0"));
}

}  // namespace
}  // namespace triax
