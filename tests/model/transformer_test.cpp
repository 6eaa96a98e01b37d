// SPDX-License-Identifier: Apache-2.0
#include "triax/model/transformer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/tensors.h"
#include "tests/support/tiny_models.h"
#include "triax/model/loss.h"

namespace triax {
namespace {

// B 2, S 7, V 11, H 16
constexpr int64_t kLength = 7;

Place training_place() {
  return {.sample_ids = {3, 8},
          .first_position = 0,
          .step = 2,
          .seed = 5,
          .is_training = true,
          .document_ids = {}};
}

at::Tensor input_ids() {
  return random_ids({2, kLength}, 11, 21);
}

LossOptions loss_options() {
  return {.vocab_size = 11,
          .first_vocab = 0,
          .num_valid = 11,
          .num_columns = 11,
          .reduce_max = {},
          .reduce_sum = {}};
}

at::Tensor loss_of(const at::Tensor& logits) {
  return cross_entropy(logits, random_ids({2, kLength}, 11, 22), loss_options())
      .loss;
}

std::map<std::string, at::Tensor> grads_of(Transformer& model) {
  std::map<std::string, at::Tensor> grads;
  for (ParameterSlot* slot : model.slots()) {
    grads[slot->layout.name] = slot->tensor.grad();
  }
  return grads;
}

ModelConfig with_dropout(ModelConfig config) {
  config.resid_pdrop = 0.1;
  config.embd_pdrop = 0.2;
  config.attn_pdrop = 0.3;
  return config;
}

ModelConfig with_llama3_rope(ModelConfig config) {
  config.rope_scaling.type = "llama3";
  config.rope_scaling.original_max_position_embeddings = 8;
  return config;
}

ModelConfig tied(ModelConfig config) {
  config.tie_word_embeddings = true;
  return config;
}

struct Variant {
  std::string name;
  ModelConfig config;
};

std::vector<Variant> variants() {
  return {{"llama", tiny_llama()},
          {"llama_tied", tied(tiny_llama())},
          {"llama_llama3_rope", with_llama3_rope(tiny_llama())},
          {"llama_dropout", with_dropout(tiny_llama())},
          {"gpt2", tiny_gpt2()},
          {"gpt2_dropout", with_dropout(tiny_gpt2())}};
}

class Families : public testing::TestWithParam<Variant> {
 protected:
  // Tensors this small only wait for a second thread.
  void SetUp() override { at::set_num_threads(1); }

  const ModelConfig& config() const { return GetParam().config; }
};

INSTANTIATE_TEST_SUITE_P(Transformer,
                         Families,
                         testing::ValuesIn(variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Families, ParametersAreTheLayouts) {
  const auto model = make_transformer(config(), whole_model(config()));
  const auto parameters = model->named_parameters();
  const auto slots = model->slots();
  ASSERT_EQ(parameters.size(), slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(parameters[i].key(), slots[i]->layout.name);
    EXPECT_EQ(parameters[i].value().sizes(), slots[i]->layout.shape);
    EXPECT_TRUE(parameters[i].value().is_same(slots[i]->tensor));
  }
}

TEST_P(Families, EndToEndGradientsAreRight) {
  const auto model = make_transformer(config(), whole_model(config()));
  // every layout by one of its parameters: whole models are slow to differ
  std::vector<ParameterSlot*> chosen;
  std::vector<at::Tensor> values;
  for (ParameterSlot* slot : model->slots()) {
    const bool is_inner = slot->layout.name.find("blocks.") == 0 &&
                          slot->layout.name.find("blocks.1.") != 0;
    if (!is_inner && slot->tensor.numel() <= 400) {
      chosen.push_back(slot);
      values.push_back(slot->tensor.detach());
    }
  }
  ASSERT_GE(chosen.size(), 5u);
  const TensorFunction loss = [&](const std::vector<at::Tensor>& in) {
    for (size_t i = 0; i < in.size(); ++i) {
      chosen[i]->tensor = in[i];
    }
    return loss_of(model->forward(input_ids(), training_place()));
  };
  EXPECT_LT(gradient_error(loss, values), 1e-7);
}

/// Two parts, the hidden state carried over by hand.
TEST_P(Families, TwoPartsGiveTheBitsOfOne) {
  const auto whole = make_transformer(config(), whole_model(config()));
  const at::Tensor logits = whole->forward(input_ids(), training_place());
  loss_of(logits).backward();

  const auto first = make_transformer(
      config(), {.first_layer = 0, .num_layers = 1, .has_head = false});
  const auto second = make_transformer(
      config(), {.first_layer = 1, .num_layers = 3, .has_embedding = false});
  const at::Tensor sent = first->forward(input_ids(), training_place());
  const at::Tensor received = sent.detach().requires_grad_();
  const at::Tensor split_logits = second->forward(received, training_place());
  EXPECT_TRUE(bits_equal(split_logits, logits));
  loss_of(split_logits).backward();
  sent.backward(received.grad());

  auto parts = grads_of(*first);
  parts.merge(grads_of(*second));
  for (const auto& [name, grad] : grads_of(*whole)) {
    at::Tensor part = parts.at(name);
    if (name == "embedding.weight" && config().tie_word_embeddings) {
      part = parts.at("head.weight") + part;
    }
    EXPECT_TRUE(bits_equal(part, grad)) << name;
  }
}

TEST_P(Families, ALaterTokenDoesNotChangeAnEarlierOne) {
  const auto model = make_transformer(config(), whole_model(config()));
  const at::Tensor ids = input_ids();
  const at::Tensor logits = model->forward(ids, training_place());
  at::Tensor other = ids.clone();
  other.select(1, kLength - 1).add_(1).remainder_(11);
  const at::Tensor changed = model->forward(other, training_place());
  EXPECT_TRUE(bits_equal(changed.narrow(1, 0, kLength - 1),
                         logits.narrow(1, 0, kLength - 1)));
  EXPECT_GT(max_difference(changed, logits), 1e-3);
}

TEST_P(Families, DocumentsDoNotSeeEachOther) {
  const auto model = make_transformer(config(), whole_model(config()));
  Place place = training_place();
  place.document_ids = at::tensor({0, 0, 0, 1, 1, 1, 1}, at::kLong)
                           .unsqueeze(0)
                           .expand({2, kLength});
  const at::Tensor ids = input_ids();
  const at::Tensor logits = model->forward(ids, place);
  at::Tensor other = ids.clone();
  other.narrow(1, 0, 3).add_(1).remainder_(11);
  const at::Tensor changed = model->forward(other, place);
  EXPECT_TRUE(bits_equal(changed.narrow(1, 3, 4), logits.narrow(1, 3, 4)));
  EXPECT_GT(max_difference(changed.narrow(1, 0, 3), logits.narrow(1, 0, 3)),
            1e-3);
}

TEST_P(Families, SamplesAreIndependentOfTheirBatch) {
  const auto model = make_transformer(config(), whole_model(config()));
  const at::Tensor both = model->forward(input_ids(), training_place());
  Place place = training_place();
  place.sample_ids = {8};
  const at::Tensor alone = model->forward(input_ids().narrow(0, 1, 1), place);
  EXPECT_LT(max_difference(alone[0], both[1]), 1e-12);
}

TEST_P(Families, Bf16ProductsKeepFp32Weights) {
  const auto model =
      make_transformer(config(), whole_model(config()), DType::kFloat32);
  const at::Tensor wide = model->forward(input_ids(), training_place());
  set_matmul_dtype(*model, at::kBFloat16);
  const at::Tensor logits = model->forward(input_ids(), training_place());
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_difference(logits, wide), 5e-2);
  EXPECT_GT(relative_difference(logits, wide), 1e-5);
  loss_of(logits).backward();
  for (const auto& [name, grad] : grads_of(*model)) {
    EXPECT_EQ(grad.scalar_type(), at::kFloat) << name;
  }
  const auto part = make_transformer(
      config(), {.num_layers = 2, .has_head = false}, DType::kFloat32);
  set_matmul_dtype(*part, at::kBFloat16);
  EXPECT_EQ(part->forward(input_ids(), training_place()).scalar_type(),
            at::kFloat);
}

TEST_P(Families, DropoutOnlyInTraining) {
  const auto model = make_transformer(config(), whole_model(config()));
  Place place = training_place();
  const at::Tensor first = model->forward(input_ids(), place);
  place.step = 3;
  const at::Tensor second = model->forward(input_ids(), place);
  EXPECT_EQ(bits_equal(first, second), config().resid_pdrop == 0.0);
  place.is_training = false;
  const at::Tensor evaluated = model->forward(input_ids(), place);
  place.step = 4;
  EXPECT_TRUE(bits_equal(model->forward(input_ids(), place), evaluated));
}

at::Tensor tensor_of(Transformer& model, const std::string& name) {
  return find_slot(model, name).tensor;
}

TEST(Llama, IsTheComposedFormula) {
  const ModelConfig config = tiny_llama();
  const auto model = make_transformer(config, whole_model(config));
  const auto weight = [&](const std::string& name) {
    return tensor_of(*model, name + ".weight");
  };
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    return at::rms_norm(x, {16}, weight(name), config.norm_eps);
  };
  Rotary rotary(4, config.rope_theta, {});
  const RotaryAngles angles = rotary.angles(0, kLength, at::kDouble);
  const auto turn = [&](const at::Tensor& x) {  // [B, S, heads, 4]
    const at::Tensor a = x.narrow(3, 0, 2);
    const at::Tensor b = x.narrow(3, 2, 2);
    const at::Tensor c = angles.cosine.unsqueeze(1);
    const at::Tensor s = angles.sine.unsqueeze(1);
    return at::cat({a * c - b * s, b * c + a * s}, 3);
  };
  at::Tensor x = at::embedding(weight("embedding"), input_ids());
  for (int layer = 0; layer < 4; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    const at::Tensor qkv = at::linear(norm(x, block + "attention_norm"),
                                      weight(block + "attention.qkv"))
                               .view({2, kLength, 8, 4});
    const at::Tensor attended = at::scaled_dot_product_attention(
        turn(qkv.narrow(2, 0, 4)).transpose(1, 2),
        turn(qkv.narrow(2, 4, 2)).repeat_interleave(2, 2).transpose(1, 2),
        qkv.narrow(2, 6, 2).repeat_interleave(2, 2).transpose(1, 2),
        {},
        0.0,
        /*is_causal=*/true);
    x = x + at::linear(attended.transpose(1, 2).reshape({2, kLength, 16}),
                       weight(block + "attention.out"));
    const at::Tensor gate_up = at::linear(norm(x, block + "feed_forward_norm"),
                                          weight(block + "feed_forward.up"));
    x = x + at::linear(
                at::silu(gate_up.narrow(2, 0, 24)) * gate_up.narrow(2, 24, 24),
                weight(block + "feed_forward.down"));
  }
  const at::Tensor expected = at::linear(norm(x, "final_norm"), weight("head"));
  EXPECT_LT(max_difference(model->forward(input_ids(), {}), expected), 1e-12);
}

TEST(Gpt2, IsTheComposedFormula) {
  const ModelConfig config = tiny_gpt2();
  const auto model = make_transformer(config, whole_model(config));
  uint64_t seed = 50;  // biases begin at zero: give them values
  for (ParameterSlot* slot : model->slots()) {
    if (slot->layout.shape.size() == 1) {
      slot->tensor.detach().copy_(random_tensor(slot->layout.shape, seed++));
    }
  }
  const auto weight = [&](const std::string& name) {
    return tensor_of(*model, name + ".weight");
  };
  const auto bias = [&](const std::string& name) {
    return tensor_of(*model, name + ".bias");
  };
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    return at::layer_norm(x, {16}, weight(name), bias(name), config.norm_eps);
  };
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::linear(x, weight(name), bias(name));
  };
  at::Tensor x = at::embedding(weight("embedding"), input_ids()) +
                 weight("position_embedding").narrow(0, 0, kLength);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string block = "blocks." + std::to_string(layer) + ".";
    const at::Tensor qkv =
        linear(norm(x, block + "attention_norm"), block + "attention.qkv")
            .view({2, kLength, 12, 4})
            .transpose(1, 2);
    const at::Tensor attended =
        at::scaled_dot_product_attention(qkv.narrow(1, 0, 4),
                                         qkv.narrow(1, 4, 4),
                                         qkv.narrow(1, 8, 4),
                                         {},
                                         0.0,
                                         /*is_causal=*/true);
    x = x + linear(attended.transpose(1, 2).reshape({2, kLength, 16}),
                   block + "attention.out");
    x = x + linear(at::gelu(linear(norm(x, block + "feed_forward_norm"),
                                   block + "feed_forward.up"),
                            "tanh"),
                   block + "feed_forward.down");
  }
  const at::Tensor expected =
      at::linear(norm(x, "final_norm"), weight("embedding"));
  EXPECT_LT(max_difference(model->forward(input_ids(), {}), expected), 1e-12);
}

TEST(Gpt2, PositionsBeyondTheTableAreRefused) {
  const ModelConfig config = tiny_gpt2();
  const auto model = make_transformer(config, whole_model(config));
  EXPECT_ANY_THROW(model->forward(random_ids({1, 33}, 11, 1), {}));
}

TEST(Transformer, PositionsContinueAcrossACut) {
  for (const ModelConfig& config : {tiny_llama(), tiny_gpt2()}) {
    const auto model =
        make_transformer(config, {.num_layers = 0, .has_head = false});
    Place later;
    later.first_position = 3;
    EXPECT_TRUE(bits_equal(model->forward(input_ids().narrow(1, 3, 4), later),
                           model->forward(input_ids(), {}).narrow(1, 3, 4)));
  }
}

TEST(Transformer, TiedHeadAloneHasASlotOfTheEmbedding) {
  const ModelConfig config = tiny_gpt2();
  const auto model = make_transformer(
      config, {.first_layer = 3, .num_layers = 1, .has_embedding = false});
  const auto whole = make_transformer(config, whole_model(config));
  EXPECT_TRUE(bits_equal(tensor_of(*model, "head.weight"),
                         tensor_of(*whole, "embedding.weight")));
  EXPECT_EQ(find_slot(*model, "head.weight").layout.pieces[0].logical_name,
            "transformer.wte.weight");
}

}  // namespace
}  // namespace triax
