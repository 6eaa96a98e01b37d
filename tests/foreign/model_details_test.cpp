// SPDX-License-Identifier: Apache-2.0
// What a model is besides its sizes goes with it into another system's config,
// or is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "triax/foreign/deepspeed.h"
#include "triax/foreign/model_details.h"
#include "triax/foreign/model_shapes.h"
#include "triax/foreign/torchtitan.h"
#include "triax/foreign/translate.h"

namespace triax {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kDeepSpeed =
    "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 1}";

Translation of_name(const std::string& model, System to) {
  return translate(translation_source(
                       read_deepspeed(kDeepSpeed, "d.json"),
                       {8, load_model_shape(model), load_model_details(model)}),
                   to);
}

Translation of_text(const std::string& text, System to) {
  const std::string config =
      "{\"hidden_size\": 64, \"num_hidden_layers\": 2,"
      " \"num_attention_heads\": 4, \"vocab_size\": 99, " +
      text + "}";
  return translate(translation_source(read_deepspeed(kDeepSpeed, "d.json"),
                                      {8,
                                       parse_model_shape(config, "c.json"),
                                       parse_model_details(config, "c.json")}),
                   to);
}

TEST(ModelDetails, OfANamedModelAreCarried) {
  EXPECT_THAT(of_name("llama-3.2-1b", System::kMegatron).text,
              AllOf(HasSubstr("--norm-epsilon 1.0e-05\n"),
                    HasSubstr("--rotary-base 500000\n"),
                    HasSubstr("--use-rope-scaling\n"),
                    HasSubstr("--rope-scaling-factor 32.0\n"),
                    HasSubstr("--disable-bias-linear\n"),
                    HasSubstr("--hidden-dropout 0.0\n"),
                    HasSubstr("--attention-dropout 0.0\n")));
  EXPECT_THAT(of_name("gpt2", System::kMegatron).text,
              AllOf(HasSubstr("--hidden-dropout 0.1\n"),
                    Not(HasSubstr("--disable-bias-linear"))));
  EXPECT_THAT(of_name("llama-3-8b", System::kTriax).text,
              AllOf(HasSubstr("norm_eps = 1.0e-05\n"),
                    HasSubstr("rope_theta = 500000.0\n")));
  EXPECT_THAT(of_name("qwen2.5-7b", System::kMegatron).text,
              HasSubstr("--add-qkv-bias\n"));
}

TEST(ModelDetails, OfEveryKnownNameAreKnown) {
  for (const std::string_view name : known_models()) {
    EXPECT_FALSE(load_model_details(std::string(name)).empty()) << name;
  }
}

TEST(ModelDetails, OfAConfigFileAreCarriedOrNamed) {
  const std::string scaled =
      "\"model_type\": \"llama\", \"rms_norm_eps\": 1e-05,"
      " \"rope_theta\": 250000.0, \"rope_scaling\": {\"rope_type\": \"yarn\","
      " \"factor\": 4.0}";
  const Translation llama = of_text(scaled, System::kTriax);
  EXPECT_THAT(llama.text,
              AllOf(HasSubstr("norm_eps = 1.0e-05\n"),
                    HasSubstr("rope_theta = 250000.0\n"),
                    Not(HasSubstr("rope_scaling"))));
  EXPECT_THAT(llama.lost, Contains(HasSubstr("rope_scaling \"yarn\"")));
  EXPECT_THAT(of_text(scaled, System::kMegatron).lost,
              Contains(HasSubstr("rope_scaling \"yarn\"")));
  EXPECT_THAT(of_text("\"model_type\": \"gemma2\"", System::kMegatron).lost,
              Contains(HasSubstr("architecture \"gemma2\"")));
  EXPECT_THAT(of_text("\"model_type\": \"mistral\", \"sliding_window\": 4096",
                      System::kMegatron)
                  .lost,
              Contains(HasSubstr("sliding_window 4096")));
}

TEST(ModelDetails, OfAFlavorAreCarriedOrNamed) {
  const TranslationSource source = translation_source(read_torchtitan(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n", "a.toml"));
  EXPECT_THAT(translate(source, System::kMegatron).text,
              AllOf(HasSubstr("--norm-epsilon 1.0e-05\n"),
                    HasSubstr("--rotary-base 500000\n"),
                    HasSubstr("--use-rope-scaling\n")));
  const Translation nanotron = translate(source, System::kNanotron);
  EXPECT_THAT(nanotron.text, HasSubstr("rope_theta: 500000.0\n"));
  EXPECT_THAT(nanotron.lost, Contains(HasSubstr("rope_scaling \"llama3\"")));
}

TEST(ModelDetails, OfTheShippedModelNeedNoKey) {
  const Translation same = of_name("llama-3.1-8b", System::kTorchTitan);
  EXPECT_THAT(same.text, HasSubstr("flavor = \"8B\"\n"));
  EXPECT_THAT(same.lost, Not(Contains(HasSubstr("rope"))));
  EXPECT_THAT(of_text("\"model_type\": \"llama\"", System::kTorchTitan).lost,
              Contains(HasSubstr("norm_eps 1e-06")));
}

}  // namespace
}  // namespace triax
