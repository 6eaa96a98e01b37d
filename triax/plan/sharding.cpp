// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/sharding.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "triax/base/error.h"
#include "triax/base/rounding.h"
#include "triax/plan/logical_parameters.h"
#include "triax/plan/placement.h"

namespace triax {

namespace {

bool divides_heads(const ModelConfig& model, int64_t tp) {
  const int64_t kv = model.num_key_value_heads;
  return model.num_attention_heads % tp == 0 && (kv % tp == 0 || tp % kv == 0);
}

void require_heads_divide(const ModelConfig& model, int tp) {
  TRIAX_CHECK(model.num_key_value_heads > 0 && tp > 0,
              "the model is not resolved");
  if (divides_heads(model, tp)) {
    return;
  }
  std::string allowed;
  for (int64_t degree = 1; degree <= model.num_attention_heads; ++degree) {
    if (divides_heads(model, degree)) {
      allowed += (allowed.empty() ? "" : ", ") + std::to_string(degree);
    }
  }
  throw Error("parallel.tp is ",
              tp,
              " and must divide model.num_attention_heads (",
              model.num_attention_heads,
              "), and divide or be a multiple of model.num_key_value_heads (",
              model.num_key_value_heads,
              "); use one of ",
              allowed);
}

/// What one logical parameter gives to a stored one, along the split dim.
struct Slice {
  std::string logical_name;
  Range range;             // of the logical parameter
  int64_t num_stored = 0;  // rows in memory, padding included
  int num_replicas = 1;
  int replica = 0;
};

class LayoutList {
 public:
  LayoutList(const ModelConfig& model, int tp, int tp_rank)
      : model_(model), tp_(tp), tp_rank_(tp_rank) {
    for (LogicalParameter& parameter : logical_parameters(model)) {
      logical_.emplace(parameter.name, std::move(parameter));
    }
  }

  void replicated(const std::string& name, const std::string& logical_name) {
    const std::vector<int64_t> shape = stored_shape(logical_name);
    add(name,
        replicate(),
        {{logical_name, {0, shape[0]}, shape[0], tp_, tp_rank_}});
  }

  /// Splits each logical parameter by itself; they follow each other.
  void split(const std::string& name,
             Placement placement,
             const std::vector<std::string>& logical_names) {
    std::vector<Slice> slices;
    for (const std::string& logical_name : logical_names) {
      const int64_t numel = stored_shape(logical_name)[placement.dim];
      slices.push_back({logical_name,
                        shard_range(numel, tp_, tp_rank_),
                        divide_up(numel, tp_)});
    }
    add(name, placement, slices);
  }

  void add(const std::string& name,
           Placement placement,
           const std::vector<Slice>& slices) {
    const bool is_shard = placement.kind == Placement::Kind::kShard;
    ParameterLayout layout;
    layout.name = name;
    layout.shape = stored_shape(slices[0].logical_name);
    layout.role = logical(slices[0].logical_name).role;
    int64_t start = 0;
    for (const Slice& slice : slices) {
      if (slice.range.length > 0) {
        layout.pieces.push_back(make_piece(slice, placement.dim, start));
      }
      layout.is_gradient_partial |= is_shard && slice.num_replicas > 1;
      start += slice.num_stored;
    }
    layout.shape[placement.dim] = start;
    layouts_.push_back(std::move(layout));
  }

  std::vector<ParameterLayout> take() { return std::move(layouts_); }

 private:
  const LogicalParameter& logical(const std::string& name) const {
    return logical_.at(name);
  }

  /// GPT-2's Conv1D weights are [in, out].
  bool is_transposed(const LogicalParameter& parameter) const {
    return model_.family == ModelFamily::kGpt2 &&
           parameter.role == ParameterRole::kMatrix;
  }

  std::vector<int64_t> stored_shape(const std::string& logical_name) const {
    const LogicalParameter& parameter = logical(logical_name);
    std::vector<int64_t> shape = parameter.shape;
    if (is_transposed(parameter)) {
      std::swap(shape[0], shape[1]);
    }
    return shape;
  }

  Piece make_piece(const Slice& slice,
                   int stored_dim,
                   int64_t stored_start) const {
    const LogicalParameter& parameter = logical(slice.logical_name);
    Piece piece = {.logical_name = parameter.name,
                   .logical_shape = parameter.shape,
                   .logical_range = {},
                   .stored_start = {},
                   .transposed = is_transposed(parameter),
                   .num_replicas = slice.num_replicas,
                   .replica = slice.replica,
                   .initial = parameter.initial};
    for (int64_t length : parameter.shape) {
      piece.logical_range.push_back({0, length});
    }
    piece.stored_start.assign(parameter.shape.size(), 0);
    piece.stored_start[stored_dim] = stored_start;
    piece.logical_range[piece.transposed ? 1 - stored_dim : stored_dim] =
        slice.range;
    return piece;
  }

  const ModelConfig& model_;
  const int tp_;
  const int tp_rank_;
  std::map<std::string, LogicalParameter> logical_;
  std::vector<ParameterLayout> layouts_;
};

/// Rows of q, k and v of one rank, in elements of the head axis.
struct AttentionRows {
  Range query;
  Range key_value;
  int num_replicas = 1;
  int replica = 0;
};

AttentionRows attention_rows(const ModelConfig& model, int tp, int tp_rank) {
  const int64_t d = model.head_dim;
  const int64_t heads = local_heads(model, tp);
  const int64_t kv_heads = local_key_value_heads(model, tp);
  const int sharers =
      static_cast<int>(std::max<int64_t>(1, tp / model.num_key_value_heads));
  return {.query = {tp_rank * heads * d, heads * d},
          .key_value = {tp_rank / sharers * kv_heads * d, kv_heads * d},
          .num_replicas = sharers,
          .replica = tp_rank % sharers};
}

Slice query_slice(const std::string& name, const AttentionRows& rows) {
  return {name, rows.query, rows.query.length};
}

Slice key_value_slice(const std::string& name, const AttentionRows& rows) {
  return {name,
          rows.key_value,
          rows.key_value.length,
          rows.num_replicas,
          rows.replica};
}

void add_llama_block(int layer, const AttentionRows& rows, LayoutList& list) {
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string hf = "model.layers." + std::to_string(layer) + ".";
  list.replicated(block + "attention_norm.weight",
                  hf + "input_layernorm.weight");
  list.add(block + "attention.qkv.weight",
           shard(0),
           {query_slice(hf + "self_attn.q_proj.weight", rows),
            key_value_slice(hf + "self_attn.k_proj.weight", rows),
            key_value_slice(hf + "self_attn.v_proj.weight", rows)});
  list.split(block + "attention.out.weight",
             shard(1),
             {hf + "self_attn.o_proj.weight"});
  list.replicated(block + "feed_forward_norm.weight",
                  hf + "post_attention_layernorm.weight");
  list.split(block + "feed_forward.up.weight",
             shard(0),
             {hf + "mlp.gate_proj.weight", hf + "mlp.up_proj.weight"});
  list.split(block + "feed_forward.down.weight",
             shard(1),
             {hf + "mlp.down_proj.weight"});
}

/// c_attn holds q, k and v as thirds: each is split by itself.
std::vector<Slice> gpt2_qkv(const std::string& name,
                            const AttentionRows& rows,
                            int64_t hidden) {
  std::vector<Slice> slices;
  for (int64_t third = 0; third < 3; ++third) {
    slices.push_back(query_slice(name, rows));
    slices.back().range.start += third * hidden;
  }
  return slices;
}

void add_gpt2_block(const ModelConfig& model,
                    int layer,
                    const AttentionRows& rows,
                    LayoutList& list) {
  const std::string block = "blocks." + std::to_string(layer) + ".";
  const std::string hf = "transformer.h." + std::to_string(layer) + ".";
  list.replicated(block + "attention_norm.weight", hf + "ln_1.weight");
  list.replicated(block + "attention_norm.bias", hf + "ln_1.bias");
  list.add(block + "attention.qkv.weight",
           shard(0),
           gpt2_qkv(hf + "attn.c_attn.weight", rows, model.hidden_size));
  list.add(block + "attention.qkv.bias",
           shard(0),
           gpt2_qkv(hf + "attn.c_attn.bias", rows, model.hidden_size));
  list.split(
      block + "attention.out.weight", shard(1), {hf + "attn.c_proj.weight"});
  list.replicated(block + "attention.out.bias", hf + "attn.c_proj.bias");
  list.replicated(block + "feed_forward_norm.weight", hf + "ln_2.weight");
  list.replicated(block + "feed_forward_norm.bias", hf + "ln_2.bias");
  list.split(
      block + "feed_forward.up.weight", shard(0), {hf + "mlp.c_fc.weight"});
  list.split(block + "feed_forward.up.bias", shard(0), {hf + "mlp.c_fc.bias"});
  list.split(
      block + "feed_forward.down.weight", shard(1), {hf + "mlp.c_proj.weight"});
  list.replicated(block + "feed_forward.down.bias", hf + "mlp.c_proj.bias");
}

void add_head(const ModelConfig& model,
              const ModelPart& part,
              LayoutList& list) {
  if (model.family == ModelFamily::kLlama) {
    list.replicated("final_norm.weight", "model.norm.weight");
  } else {
    list.replicated("final_norm.weight", "transformer.ln_f.weight");
    list.replicated("final_norm.bias", "transformer.ln_f.bias");
  }
  if (!model.tie_word_embeddings) {
    list.split("head.weight", shard(0), {"lm_head.weight"});
  } else if (!part.has_embedding) {
    list.split("head.weight", shard(0), {embedding_name(model.family)});
  }
}

}  // namespace

Range shard_range(int64_t numel, int tp, int tp_rank) {
  const int64_t rows = divide_up(numel, tp);
  const int64_t first = std::min(numel, tp_rank * rows);
  return {first, std::min(rows, numel - first)};
}

VocabRange vocab_range(int64_t vocab_size, int tp, int tp_rank) {
  const Range range = shard_range(vocab_size, tp, tp_rank);
  return {.first = range.start,
          .num_valid = range.length,
          .num_stored = divide_up(vocab_size, tp)};
}

int64_t local_heads(const ModelConfig& model, int tp) {
  require_heads_divide(model, tp);
  return model.num_attention_heads / tp;
}

int64_t local_key_value_heads(const ModelConfig& model, int tp) {
  require_heads_divide(model, tp);
  return std::max<int64_t>(1, model.num_key_value_heads / tp);
}

std::vector<ParameterLayout> parameter_layouts(const ModelConfig& model,
                                               const ModelPart& part,
                                               int tp,
                                               int tp_rank) {
  TRIAX_CHECK(tp_rank >= 0 && tp_rank < tp, "tp rank ", tp_rank, " of ", tp);
  const AttentionRows rows = attention_rows(model, tp, tp_rank);
  LayoutList list(model, tp, tp_rank);
  const bool is_gpt2 = model.family == ModelFamily::kGpt2;
  if (part.has_embedding) {
    list.split("embedding.weight", shard(0), {embedding_name(model.family)});
    if (is_gpt2) {
      list.replicated("position_embedding.weight", "transformer.wpe.weight");
    }
  }
  for (int i = 0; i < part.num_layers; ++i) {
    const int layer = part.first_layer + i;
    if (is_gpt2) {
      add_gpt2_block(model, layer, rows, list);
    } else {
      add_llama_block(layer, rows, list);
    }
  }
  if (part.has_head) {
    add_head(model, part, list);
  }
  return list.take();
}

std::vector<ParameterLayout> whole_model_layouts(const ModelConfig& model,
                                                 int tp) {
  const ModelPart whole{
      .first_layer = 0,
      .num_layers = static_cast<int>(model.num_hidden_layers)};
  return parameter_layouts(model, whole, tp, 0);
}

}  // namespace triax
