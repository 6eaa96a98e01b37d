// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/model_part.h"
#include "triax/config/run_config.h"

namespace triax {

// How each parameter is stored on one rank of the tensor-parallel axis.
// A width N over tp ranks takes ceil(N / tp) rows on every rank; the last
// ranks may own fewer of them, or none. The rest is padding: no piece covers
// it, it is zero, and it exists only in memory.

/// The part of `numel` that a rank owns: [r * ceil, ...), cut at numel.
Range shard_range(int64_t numel, int tp, int tp_rank);

/// The vocabulary rows of one rank: logical rows [first, first + num_valid);
/// num_stored is the same on all ranks.
struct VocabRange {
  int64_t first = 0;
  int64_t num_valid = 0;
  int64_t num_stored = 0;

  bool operator==(const VocabRange&) const = default;
};

VocabRange vocab_range(int64_t vocab_size, int tp, int tp_rank);

/// Query heads of each rank. Throws Error, with the degrees that work, when tp
/// does not divide the heads, or neither divides the other of tp and KV heads.
int64_t local_heads(const ModelConfig& model, int tp);

/// KV heads of each rank. Fewer KV heads than tp: each rank has one, rank r the
/// head r * kv / tp, and tp / kv neighbours share it. Throws as local_heads.
int64_t local_key_value_heads(const ModelConfig& model, int tp);

/// The stored parameters of `part` on rank `tp_rank` of `tp`, in the order of
/// the forward pass. Shapes are equal on all tp ranks.
///
///   V' = ceil(V / tp), F' = ceil(F / tp), a' and k' the local heads, d
///   head_dim embedding.weight                     [V', H]
///   position_embedding.weight            [T, H]              gpt2
///   blocks.{i}.attention_norm.weight     [H]       (.bias    gpt2)
///   blocks.{i}.attention.qkv.weight      [(a' + 2 k') d, H]  q, k, v rows
///   blocks.{i}.attention.qkv.bias        [(a' + 2 k') d]     gpt2
///   blocks.{i}.attention.out.weight      [H, a' d]
///   blocks.{i}.attention.out.bias        [H]                 gpt2
///   blocks.{i}.feed_forward_norm.weight  [H]       (.bias    gpt2)
///   blocks.{i}.feed_forward.up.weight    [2 F', H] gate, up; [F', H] gpt2
///   blocks.{i}.feed_forward.up.bias      [F']                gpt2
///   blocks.{i}.feed_forward.down.weight  [H, F']
///   blocks.{i}.feed_forward.down.bias    [H]                 gpt2
///   final_norm.weight                    [H]       (.bias    gpt2)
///   head.weight                          [V', H]
///
/// i is the layer's number in the whole model. Norms, positions and the biases
/// of out and down are replicated: num_replicas is tp, and their gradients are
/// equal on all tp ranks. Where ranks share a KV head, the pieces of k and v
/// have num_replicas tp / kv and is_gradient_partial is set: the gradients of
/// these pieces (not of q) must be summed over their replicas.
/// A tied head is the embedding; a part that holds the head alone stores its
/// own copy, whose piece and role are the embedding's.
/// `model` must be resolved. Throws Error as local_heads does.
std::vector<ParameterLayout> parameter_layouts(const ModelConfig& model,
                                               const ModelPart& part,
                                               int tp,
                                               int tp_rank);

/// The layouts of all stages, as rank 0 of tp stores them.
std::vector<ParameterLayout> whole_model_layouts(const ModelConfig& model,
                                                 int tp);

}  // namespace triax
