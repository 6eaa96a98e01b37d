// SPDX-License-Identifier: Apache-2.0
// Compares with what transformers computed; tests/oracle/make_reference.py
// made the files and says what they hold.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/logical_tensors.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_models.h"
#include "triax/model/loss.h"

namespace triax {
namespace {

using nlohmann::json;

const std::string kFolder = TRIAX_SOURCE_DIR "/tests/oracle/reference/";

json load_index() {
  std::ifstream file(kFolder + "index.json");
  return json::parse(file);
}

ModelConfig read_config(const json& from) {
  ModelConfig config;
  config.family =
      from.at("family") == "gpt2" ? ModelFamily::kGpt2 : ModelFamily::kLlama;
  from.at("hidden_size").get_to(config.hidden_size);
  from.at("intermediate_size").get_to(config.intermediate_size);
  from.at("num_hidden_layers").get_to(config.num_hidden_layers);
  from.at("num_attention_heads").get_to(config.num_attention_heads);
  from.at("num_key_value_heads").get_to(config.num_key_value_heads);
  from.at("head_dim").get_to(config.head_dim);
  from.at("vocab_size").get_to(config.vocab_size);
  from.at("max_position_embeddings").get_to(config.max_position_embeddings);
  from.at("tie_word_embeddings").get_to(config.tie_word_embeddings);
  from.at("norm_eps").get_to(config.norm_eps);
  from.at("rope_theta").get_to(config.rope_theta);
  const json& scaling = from.at("rope_scaling");
  RopeScaling& rope = config.rope_scaling;
  rope.type = scaling.at("type");
  rope.factor = scaling.value("factor", rope.factor);
  rope.low_freq_factor = scaling.value("low_freq_factor", 1.0);
  rope.high_freq_factor = scaling.value("high_freq_factor", 4.0);
  rope.original_max_position_embeddings =
      scaling.value("original_max_position_embeddings", int64_t{8192});
  return config;
}

/// One model of the reference.
class Reference {
 public:
  Reference(std::string name, const json& entry)
      : name_(std::move(name)), tensors_(entry.at("tensors")) {}

  at::Tensor tensor(const std::string& key) const {
    const json& entry = tensors_.at(key);
    const auto dtype = entry.at("dtype") == "int64" ? at::kLong : at::kDouble;
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    at::Tensor result = at::empty(shape, dtype);
    std::ifstream file(kFolder + name_ + ".bin", std::ios::binary);
    file.seekg(entry.at("offset").get<int64_t>());
    file.read(static_cast<char*>(result.data_ptr()), result.nbytes());
    EXPECT_TRUE(file.good()) << name_ << " " << key;
    return result;
  }

  /// "weight:" or "grad:", by logical name.
  LogicalTensors all(const std::string& prefix) const {
    LogicalTensors found;
    for (const auto& [key, entry] : tensors_.items()) {
      if (key.rfind(prefix, 0) == 0) {
        found[key.substr(prefix.size())] = tensor(key);
      }
    }
    return found;
  }

 private:
  const std::string name_;
  const json& tensors_;
};

void compare(const std::string& name, const json& entry) {
  SCOPED_TRACE(name);
  const ModelConfig config = read_config(entry.at("config"));
  const Reference reference(name, entry);
  const auto model = make_transformer(config, whole_model(config));
  load_values(model->slots(), reference.all("weight:"));

  const at::Tensor logits = model->forward(reference.tensor("ids"), {});
  const at::Tensor loss = cross_entropy(logits,
                                        reference.tensor("labels"),
                                        {.vocab_size = config.vocab_size,
                                         .num_valid = config.vocab_size,
                                         .num_columns = config.vocab_size,
                                         .reduce_max = {},
                                         .reduce_sum = {}})
                              .loss;
  loss.backward();
  // transformers takes Llama's norms and angles in fp32 whatever the dtype
  const double bound = config.family == ModelFamily::kGpt2 ? 1e-12 : 2e-6;
  EXPECT_LT(relative_difference(logits, reference.tensor("logits")), bound);
  EXPECT_LT(relative_difference(loss, reference.tensor("loss")), bound);
  const LogicalTensors grads = assemble_gradients(model->slots());
  const LogicalTensors expected = reference.all("grad:");
  ASSERT_EQ(grads.size(), expected.size());
  for (const auto& [parameter, grad] : expected) {
    EXPECT_LT(relative_difference(grads.at(parameter), grad), bound)
        << parameter;
  }
}

TEST(HuggingFace, LogitsLossAndGradientsAreTheirs) {
  const json index = load_index();
  EXPECT_GE(index.size(), 4u);
  for (const auto& [name, entry] : index.items()) {
    compare(name, entry);
  }
}

}  // namespace
}  // namespace triax
