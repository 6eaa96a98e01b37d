// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "tests/plan/models.h"
#include "triax/base/error.h"
#include "triax/plan/logical_parameters.h"
#include "triax/plan/stage_split.h"

namespace triax {
namespace {

using Shape = std::vector<int64_t>;

ModelPart whole(const ModelConfig& model) {
  return {.num_layers = static_cast<int>(model.num_hidden_layers)};
}

ParameterLayout find(const std::vector<ParameterLayout>& layouts,
                     const std::string& name) {
  for (const ParameterLayout& layout : layouts) {
    if (layout.name == name) {
      return layout;
    }
  }
  ADD_FAILURE() << name << " is not stored";
  return {};
}

ParameterLayout layout_of(const ModelConfig& model,
                          const std::string& name,
                          int tp,
                          int tp_rank) {
  return find(parameter_layouts(model, whole(model), tp, tp_rank), name);
}

TEST(Sharding, VocabularyIsCutByTheCeiling) {
  EXPECT_EQ(vocab_range(11, 2, 0), (VocabRange{0, 6, 6}));
  EXPECT_EQ(vocab_range(11, 2, 1), (VocabRange{6, 5, 6}));
  EXPECT_EQ(vocab_range(50257, 2, 1), (VocabRange{25129, 25128, 25129}));
  EXPECT_EQ(vocab_range(5, 4, 2), (VocabRange{4, 1, 2}));
  EXPECT_EQ(vocab_range(5, 4, 3), (VocabRange{5, 0, 2}));
  EXPECT_EQ(vocab_range(7, 1, 0), (VocabRange{0, 7, 7}));
}

TEST(Sharding, ARankWithoutRowsStoresPaddingOnly) {
  const ModelConfig model = llama_model(5, 1, 16, 24, 4, 4);
  const ParameterLayout head = layout_of(model, "head.weight", 4, 3);
  EXPECT_EQ(head.shape, (Shape{2, 16}));
  EXPECT_TRUE(head.pieces.empty());
}

TEST(Sharding, QkvStacksTheRanksHeads) {
  const ModelConfig model = llama_model(32, 1, 16, 24, 8, 4);  // head_dim 2
  const ParameterLayout qkv =
      layout_of(model, "blocks.0.attention.qkv.weight", 2, 1);
  EXPECT_EQ(qkv.shape, (Shape{(4 + 2 * 2) * 2, 16}));
  EXPECT_FALSE(qkv.is_gradient_partial);
  ASSERT_EQ(qkv.pieces.size(), 3u);
  EXPECT_EQ(qkv.pieces[0].logical_name,
            "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(qkv.pieces[0].logical_range, (std::vector<Range>{{8, 8}, {0, 16}}));
  EXPECT_EQ(qkv.pieces[0].stored_start, (Shape{0, 0}));
  EXPECT_EQ(qkv.pieces[1].logical_name,
            "model.layers.0.self_attn.k_proj.weight");
  EXPECT_EQ(qkv.pieces[1].logical_range, (std::vector<Range>{{4, 4}, {0, 16}}));
  EXPECT_EQ(qkv.pieces[1].stored_start, (Shape{8, 0}));
  EXPECT_EQ(qkv.pieces[2].logical_name,
            "model.layers.0.self_attn.v_proj.weight");
  EXPECT_EQ(qkv.pieces[2].stored_start, (Shape{12, 0}));
}

// 8 heads, 2 KV heads, tp 4: ranks 0, 1 share KV head 0, ranks 2, 3 head 1.
TEST(Sharding, RanksShareAKvHeadWhenThereAreFewerThanTp) {
  const ModelConfig model = llama_model(32, 1, 16, 24, 8, 2);  // head_dim 2
  for (int rank = 0; rank < 4; ++rank) {
    const ParameterLayout qkv =
        layout_of(model, "blocks.0.attention.qkv.weight", 4, rank);
    EXPECT_EQ(qkv.shape, (Shape{(2 + 2) * 2, 16}));
    EXPECT_TRUE(qkv.is_gradient_partial);
    ASSERT_EQ(qkv.pieces.size(), 3u);
    EXPECT_EQ(qkv.pieces[0].num_replicas, 1);
    EXPECT_EQ(qkv.pieces[0].logical_range[0], (Range{rank * 4, 4}));
    for (int i : {1, 2}) {
      EXPECT_EQ(qkv.pieces[i].num_replicas, 2);
      EXPECT_EQ(qkv.pieces[i].replica, rank % 2);
      EXPECT_EQ(qkv.pieces[i].logical_range[0], (Range{rank / 2 * 2, 2}));
    }
  }
}

TEST(Sharding, Gpt2CutsEachThirdOfCAttnAndTransposes) {
  const ModelConfig model = gpt2_model(32, 1, 16, 4, 8);
  const ParameterLayout qkv =
      layout_of(model, "blocks.0.attention.qkv.weight", 2, 1);
  EXPECT_EQ(qkv.shape, (Shape{24, 16}));
  ASSERT_EQ(qkv.pieces.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Piece& piece = qkv.pieces[i];
    EXPECT_EQ(piece.logical_name, "transformer.h.0.attn.c_attn.weight");
    EXPECT_EQ(piece.logical_shape, (Shape{16, 48}));
    EXPECT_TRUE(piece.transposed);
    EXPECT_EQ(piece.logical_range,
              (std::vector<Range>{{0, 16}, {16 * i + 8, 8}}));
    EXPECT_EQ(piece.stored_start, (Shape{8 * i, 0}));
  }
  const ParameterLayout bias =
      layout_of(model, "blocks.0.attention.qkv.bias", 2, 1);
  EXPECT_EQ(bias.shape, (Shape{24}));
  EXPECT_EQ(bias.pieces[2].logical_range, (std::vector<Range>{{40, 8}}));
  EXPECT_EQ(bias.pieces[2].stored_start, (Shape{16}));
  const ParameterLayout down =
      layout_of(model, "blocks.0.feed_forward.down.weight", 2, 1);
  EXPECT_EQ(down.shape, (Shape{16, 32}));
  EXPECT_EQ(down.pieces[0].logical_range,
            (std::vector<Range>{{32, 32}, {0, 16}}));
  EXPECT_EQ(down.pieces[0].stored_start, (Shape{0, 0}));
}

TEST(Sharding, GateAndUpArePaddedEachByItself) {
  const ModelConfig model = llama_model(32, 1, 16, 7, 4, 4);
  const ParameterLayout up =
      layout_of(model, "blocks.0.feed_forward.up.weight", 2, 1);
  EXPECT_EQ(up.shape, (Shape{8, 16}));
  ASSERT_EQ(up.pieces.size(), 2u);
  EXPECT_EQ(up.pieces[0].logical_range[0], (Range{4, 3}));
  EXPECT_EQ(up.pieces[0].stored_start, (Shape{0, 0}));
  EXPECT_EQ(up.pieces[1].logical_name, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(up.pieces[1].stored_start, (Shape{4, 0}));
}

TEST(Sharding, NormsAndOutputBiasesAreReplicated) {
  const ModelConfig model = gpt2_model(32, 1, 16, 4, 8);
  for (const char* name : {"position_embedding.weight",
                           "blocks.0.attention_norm.weight",
                           "blocks.0.attention_norm.bias",
                           "blocks.0.attention.out.bias",
                           "blocks.0.feed_forward_norm.weight",
                           "blocks.0.feed_forward_norm.bias",
                           "blocks.0.feed_forward.down.bias",
                           "final_norm.weight",
                           "final_norm.bias"}) {
    const ParameterLayout layout = layout_of(model, name, 4, 3);
    ASSERT_EQ(layout.pieces.size(), 1u) << name;
    EXPECT_EQ(layout.pieces[0].num_replicas, 4) << name;
    EXPECT_EQ(layout.pieces[0].replica, 3) << name;
    EXPECT_EQ(layout.numel(), layout.pieces[0].numel()) << name;
    EXPECT_FALSE(layout.is_gradient_partial) << name;
  }
}

TEST(Sharding, ATiedHeadIsACopyOfTheEmbeddingOnlyWhereThatIsNot) {
  const ModelConfig model = gpt2_model(32, 2, 16, 4, 8);
  for (const ParameterLayout& layout :
       parameter_layouts(model, whole(model), 1, 0)) {
    EXPECT_NE(layout.name, "head.weight");
  }
  const ModelPart last = {1, 1, /*has_embedding=*/false, /*has_head=*/true};
  const std::vector<ParameterLayout> layouts =
      parameter_layouts(model, last, 2, 1);
  const ParameterLayout head = find(layouts, "head.weight");
  EXPECT_EQ(head.shape, (Shape{16, 16}));
  EXPECT_EQ(head.role, ParameterRole::kEmbedding);
  EXPECT_EQ(head.pieces[0].logical_name, "transformer.wte.weight");
  EXPECT_EQ(layouts.front().name, "blocks.1.attention_norm.weight");
}

TEST(Sharding, TpThatDoesNotDivideTheHeadsIsAnErrorWithTheDegreesThatDo) {
  const auto message = [](int heads, int kv_heads, int tp) -> std::string {
    try {
      local_heads(llama_model(32, 1, heads * 2, 24, heads, kv_heads), tp);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(12, 12, 8), testing::EndsWith("1, 2, 3, 4, 6, 12"));
  EXPECT_THAT(message(25, 25, 2), testing::EndsWith("one of 1, 5, 25"));
  EXPECT_THAT(message(12, 6, 4), testing::HasSubstr("key_value_heads (6)"));
  EXPECT_EQ(message(64, 2, 8), "");
}

// ---- properties over models, tp and stages

struct Layout {
  ModelConfig model;
  int tp = 1;
  std::vector<ModelPart> parts;
};

Layout any_layout() {
  Layout layout;
  layout.tp = *rc::gen::element(1, 2, 3, 4, 6);
  const int64_t head_dim = *rc::gen::inRange(1, 4);
  int64_t kv = layout.tp * *rc::gen::inRange(1, 3);
  if (*rc::gen::arbitrary<bool>()) {  // fewer KV heads than ranks
    kv = *rc::gen::suchThat(rc::gen::inRange(1, 7),
                            [&](int n) { return layout.tp % n == 0; });
  }
  const int64_t group =
      layout.tp / std::min<int64_t>(kv, layout.tp) * *rc::gen::inRange(1, 3);
  const int64_t heads = kv * group;
  const int layers = *rc::gen::inRange(1, 4);
  const int64_t vocab = *rc::gen::inRange(1, 20);
  if (*rc::gen::arbitrary<bool>()) {
    const int64_t gpt2_heads = layout.tp * *rc::gen::inRange(1, 3);
    layout.model =
        gpt2_model(vocab, layers, gpt2_heads * head_dim, gpt2_heads, 5);
    layout.model.intermediate_size = *rc::gen::inRange(1, 20);
  } else {
    layout.model = llama_model(vocab,
                               layers,
                               *rc::gen::inRange(1, 12),
                               *rc::gen::inRange(1, 20),
                               heads,
                               kv);
    layout.model.head_dim = head_dim;
  }
  layout.model.tie_word_embeddings = *rc::gen::arbitrary<bool>();
  ParallelConfig parallel;
  parallel.pp = *rc::gen::inRange(1, layers + 1);
  layout.parts = split_stages(layout.model, parallel);
  return layout;
}

/// Calls visit(logical index, stored index) for each element of a piece, both
/// row-major. Throws when the piece leaves a rectangle.
template <class Visit>
void for_each_element(const ParameterLayout& layout,
                      const Piece& piece,
                      Visit visit) {
  const auto at = [](const Shape& index, const Shape& shape) {
    int64_t flat = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      RC_ASSERT(index[dim] >= 0 && index[dim] < shape[dim]);
      flat = flat * shape[dim] + index[dim];
    }
    return flat;
  };
  const bool is_matrix = layout.shape.size() == 2;
  RC_ASSERT(piece.logical_shape.size() == layout.shape.size());
  for (int64_t i = 0; i < piece.logical_range[0].length; ++i) {
    const int64_t columns = is_matrix ? piece.logical_range[1].length : 1;
    for (int64_t j = 0; j < columns; ++j) {
      Shape logical = {piece.logical_range[0].start + i};
      Shape stored = {piece.stored_start[0] + (piece.transposed ? j : i)};
      if (is_matrix) {
        logical.push_back(piece.logical_range[1].start + j);
        stored.push_back(piece.stored_start[1] + (piece.transposed ? i : j));
      }
      visit(at(logical, piece.logical_shape), at(stored, layout.shape));
    }
  }
}

RC_GTEST_PROP(Sharding, ShapesAreEqualOnAllRanks, ()) {
  const Layout layout = any_layout();
  for (const ModelPart& part : layout.parts) {
    const auto first = parameter_layouts(layout.model, part, layout.tp, 0);
    for (int rank = 1; rank < layout.tp; ++rank) {
      const auto other = parameter_layouts(layout.model, part, layout.tp, rank);
      RC_ASSERT(other.size() == first.size());
      for (size_t i = 0; i < first.size(); ++i) {
        RC_ASSERT(other[i].name == first[i].name);
        RC_ASSERT(other[i].shape == first[i].shape);
        RC_ASSERT(other[i].role == first[i].role);
        RC_ASSERT(other[i].is_gradient_partial == first[i].is_gradient_partial);
      }
    }
  }
}

RC_GTEST_PROP(Sharding, PiecesLieInsideAndDoNotOverlap, ()) {
  const Layout layout = any_layout();
  for (const ModelPart& part : layout.parts) {
    for (int rank = 0; rank < layout.tp; ++rank) {
      for (const ParameterLayout& stored :
           parameter_layouts(layout.model, part, layout.tp, rank)) {
        std::set<int64_t> taken;
        for (const Piece& piece : stored.pieces) {
          RC_ASSERT(piece.numel() > 0);
          for_each_element(stored, piece, [&](int64_t, int64_t at) {
            RC_ASSERT(taken.insert(at).second);
          });
        }
      }
    }
  }
}

RC_GTEST_PROP(Sharding, EachElementIsCoveredOncePerReplica, ()) {
  const Layout layout = any_layout();
  // (name, element) -> replica numbers seen, and how many were promised
  std::map<std::string, std::map<int64_t, std::multiset<int>>> seen;
  std::map<std::string, int> num_replicas;
  std::map<std::string, int> num_copies;  // stages that store it
  for (const ModelPart& part : layout.parts) {
    std::set<std::string> here;
    for (int rank = 0; rank < layout.tp; ++rank) {
      for (const ParameterLayout& stored :
           parameter_layouts(layout.model, part, layout.tp, rank)) {
        for (const Piece& piece : stored.pieces) {
          const auto [known, is_new] =
              num_replicas.emplace(piece.logical_name, piece.num_replicas);
          RC_ASSERT(known->second == piece.num_replicas);
          num_copies[piece.logical_name] +=
              here.insert(piece.logical_name).second;
          for_each_element(stored, piece, [&](int64_t element, int64_t) {
            seen[piece.logical_name][element].insert(piece.replica);
          });
        }
      }
    }
  }
  const auto logical = logical_parameters(layout.model);
  RC_ASSERT(seen.size() == logical.size());
  for (const LogicalParameter& parameter : logical) {
    const auto& elements = seen.at(parameter.name);
    RC_ASSERT(static_cast<int64_t>(elements.size()) == parameter.numel());
    const int copies = num_copies.at(parameter.name);
    const bool is_tied_twice = layout.model.tie_word_embeddings &&
                               layout.parts.size() > 1 &&
                               parameter.role == ParameterRole::kEmbedding;
    RC_ASSERT(copies == (is_tied_twice ? 2 : 1));
    std::multiset<int> expected;
    for (int i = 0; i < num_replicas.at(parameter.name) * copies; ++i) {
      expected.insert(i % num_replicas.at(parameter.name));
    }
    for (const auto& [element, replicas] : elements) {
      RC_ASSERT(replicas == expected);
    }
  }
}

RC_GTEST_PROP(Sharding, QueryHeadsStandBesideTheirKvHead, ()) {
  const ModelConfig model = any_layout().model;
  const int64_t group = model.num_attention_heads / model.num_key_value_heads;
  for (int tp = 1; tp <= model.num_attention_heads; ++tp) {
    const bool is_possible = model.num_attention_heads % tp == 0 &&
                             (model.num_key_value_heads % tp == 0 ||
                              tp % model.num_key_value_heads == 0);
    for (int rank = 0; is_possible && rank < tp; ++rank) {
      const auto& pieces =
          layout_of(model, "blocks.0.attention.qkv.weight", tp, rank).pieces;
      const int64_t head_dim = model.head_dim;
      const size_t split = model.family == ModelFamily::kGpt2 ? 1 : 0;
      const Range query = pieces[0].logical_range[split];
      const Range key = pieces[1].logical_range[split];
      const int64_t first_key =
          (key.start - (split ? model.hidden_size : 0)) / head_dim;
      RC_ASSERT(query.start / head_dim / group == first_key);
      RC_ASSERT((query.start + query.length - 1) / head_dim / group ==
                first_key + key.length / head_dim - 1);
    }
  }
}

RC_GTEST_PROP(Sharding, PiecesCarryTheLogicalShapeAndStart, ()) {
  const Layout layout = any_layout();
  std::map<std::string, LogicalParameter> logical;
  for (const LogicalParameter& parameter : logical_parameters(layout.model)) {
    logical.emplace(parameter.name, parameter);
  }
  for (const ModelPart& part : layout.parts) {
    for (const ParameterLayout& stored :
         parameter_layouts(layout.model, part, layout.tp, layout.tp - 1)) {
      for (const Piece& piece : stored.pieces) {
        const LogicalParameter& parameter = logical.at(piece.logical_name);
        RC_ASSERT(piece.logical_shape == parameter.shape);
        RC_ASSERT(piece.initial == parameter.initial);
        RC_ASSERT(stored.role == parameter.role);
      }
    }
  }
}

}  // namespace
}  // namespace triax
