// SPDX-License-Identifier: Apache-2.0
#include "triax/model/allocate.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/logical_tensors.h"
#include "tests/support/tensors.h"
#include "tests/support/tiny_models.h"
#include "triax/plan/sharding.h"

namespace triax {
namespace {

LogicalTensors assemble(
    const std::vector<std::shared_ptr<Transformer>>& models) {
  std::vector<ParameterSlot*> slots;
  for (const auto& model : models) {
    const auto own = model->slots();
    slots.insert(slots.end(), own.begin(), own.end());
  }
  return assemble_values(slots);
}

std::vector<std::shared_ptr<Transformer>> ranks(const ModelConfig& config,
                                                const ModelPart& part,
                                                int tp,
                                                DType dtype) {
  std::vector<std::shared_ptr<Transformer>> models;
  for (int rank = 0; rank < tp; ++rank) {
    models.push_back(
        make_transformer(config, part, dtype, /*seed=*/7, tp, rank));
  }
  return models;
}

class Allocate : public testing::TestWithParam<ModelConfig> {
 protected:
  LogicalTensors whole(DType dtype = DType::kFloat32) const {
    return assemble(ranks(GetParam(), whole_model(GetParam()), 1, dtype));
  }
};

INSTANTIATE_TEST_SUITE_P(Families,
                         Allocate,
                         testing::Values(tiny_llama(), tiny_gpt2()));

TEST_P(Allocate, ValuesDoNotDependOnTheSplit) {
  const auto expected = whole();
  for (const int tp : {2, 4}) {
    const auto split = assemble(
        ranks(GetParam(), whole_model(GetParam()), tp, DType::kFloat32));
    ASSERT_EQ(split.size(), expected.size());
    for (const auto& [name, value] : expected) {
      EXPECT_TRUE(bits_equal(split.at(name), value)) << name << " tp " << tp;
    }
  }
}

TEST_P(Allocate, ValuesDoNotDependOnTheStages) {
  const auto first = ranks(
      GetParam(), {.num_layers = 1, .has_head = false}, 1, DType::kFloat32);
  const auto second =
      ranks(GetParam(),
            {.first_layer = 1, .num_layers = 3, .has_embedding = false},
            1,
            DType::kFloat32);
  const auto split = assemble({first[0], second[0]});
  for (const auto& [name, value] : whole()) {
    EXPECT_TRUE(bits_equal(split.at(name), value)) << name;
  }
}

TEST_P(Allocate, DtypesRoundTheSameValues) {
  const auto wide = whole(DType::kFloat64);
  const auto narrow = whole(DType::kBfloat16);
  for (const auto& [name, value] : whole()) {
    EXPECT_TRUE(bits_equal(wide.at(name).to(at::kFloat), value)) << name;
    EXPECT_TRUE(bits_equal(value.to(at::kBFloat16), narrow.at(name))) << name;
  }
}

TEST_P(Allocate, NoTwoDrawnParametersAreEqual) {
  std::set<double> sums;
  int num_drawn = 0;
  for (const auto& [name, value] : whole(DType::kFloat64)) {
    if (value.dim() == 2) {
      sums.insert(value.sum().item<double>());
      ++num_drawn;
    }
  }
  EXPECT_EQ(static_cast<int>(sums.size()), num_drawn);
}

TEST_P(Allocate, PaddingIsZero) {
  const int tp = 4;  // 11 rows in 4 parts of 3
  const auto models =
      ranks(GetParam(), whole_model(GetParam()), tp, DType::kFloat32);
  const at::Tensor table =
      find_slot(*models[3], "embedding.weight").tensor.detach();
  EXPECT_EQ(table.size(0), 3);
  EXPECT_EQ(table.narrow(0, 2, 1).count_nonzero().item<int64_t>(), 0);
  EXPECT_GT(table.narrow(0, 0, 2).count_nonzero().item<int64_t>(), 0);
}

TEST_P(Allocate, ModulesLearnWhatTheyHold) {
  const auto models =
      ranks(GetParam(), whole_model(GetParam()), 2, DType::kFloat32);
  EXPECT_EQ(models[1]->embedding->first_row, 6);
  EXPECT_EQ(models[1]->embedding->num_valid, 5);
  for (const auto& block : models[1]->blocks) {
    EXPECT_EQ(block->attention->first_head, 2);
    EXPECT_EQ(block->attention->heads().num_queries, 2);
  }
}

TEST(SetLayouts, RefusesMissingAndUnknownNames) {
  const ModelConfig config = tiny_llama();
  const ModelPart part = whole_model(config);
  Transformer model(config, part);
  auto layouts = parameter_layouts(config, part, 1, 0);
  auto missing = layouts;
  missing.pop_back();
  EXPECT_THROW(set_layouts(model, missing), std::logic_error);
  auto unknown = layouts;
  unknown[0].name = "embeding.weight";
  EXPECT_THROW(set_layouts(model, unknown), std::logic_error);
  set_layouts(model, layouts);
  allocate(model, DType::kFloat32, 1);
  EXPECT_THROW(set_layouts(model, layouts), std::logic_error);
}

TEST(SetLayouts, HasTheOrderOfTheModel) {
  for (const ModelConfig& config : {tiny_llama(), tiny_gpt2()}) {
    const ModelPart part = whole_model(config);
    Transformer model(config, part);
    const auto layouts = parameter_layouts(config, part, 1, 0);
    const auto slots = model.slots();
    ASSERT_EQ(slots.size(), layouts.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(slots[i]->layout.name, layouts[i].name);
      EXPECT_EQ(slots[i]->layout.shape, layouts[i].shape);
      EXPECT_EQ(slots[i]->layout.role, layouts[i].role);
    }
  }
}

}  // namespace
}  // namespace triax
