// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/apply.h"

#include "triax/mesh/tensor_group.h"
#include "triax/model/allocate.h"
#include "triax/plan/sharding.h"
#include "triax/tensor_parallel/boundary.h"

namespace triax {

namespace {

void split_sequence(Linear& product, const Boundary& on_input) {
  product.on_input = on_input;
  product.redoes_on_input = true;
}

/// The residual stream holds this rank's part of the sequence.
void apply_sequence_parallel(Transformer& model, Group& tp) {
  const Boundary gather = gather_sequence(tp);
  const Boundary scatter = scatter_sequence(tp);
  if (model.embedding) {
    model.embedding->on_output = scatter;
    model.embedding_dropout->sequence_part = tp.rank();
  }
  for (const auto& block : model.blocks) {
    split_sequence(*block->attention->qkv, gather);
    block->attention->out->on_output = scatter;
    split_sequence(*block->feed_forward->up, gather);
    block->feed_forward->down->on_output = scatter;
    block->attention_dropout->sequence_part = tp.rank();
    block->feed_forward_dropout->sequence_part = tp.rank();
  }
  if (model.head) {
    split_sequence(*model.head, gather);
  }
}

}  // namespace

void apply_tensor_parallel(Transformer& model,
                           const ModelConfig& config,
                           const ModelPart& part,
                           Group& tp,
                           bool splits_sequence) {
  set_layouts(model, parameter_layouts(config, part, tp.size(), tp.rank()));
  if (tp.size() == 1) {
    return;
  }
  if (splits_sequence) {
    apply_sequence_parallel(model, tp);
    return;
  }
  if (model.embedding) {
    model.embedding->on_output = reduce_from(tp);
  }
  for (const auto& block : model.blocks) {
    block->attention->qkv->on_input = copy_to(tp);
    block->attention->out->on_output = reduce_from(tp);
    block->feed_forward->up->on_input = copy_to(tp);
    block->feed_forward->down->on_output = reduce_from(tp);
  }
  if (model.head) {
    model.head->on_input = copy_to(tp);
  }
}

LossOptions vocab_parallel_loss(const RunConfig& config, Group& tp) {
  const VocabRange range =
      vocab_range(config.model.vocab_size, tp.size(), tp.rank());
  LossOptions options;
  options.vocab_size = config.model.vocab_size;
  options.first_vocab = range.first;
  options.num_valid = range.num_valid;
  options.num_columns = range.num_stored;
  options.label_smoothing = config.training.label_smoothing;
  options.z_loss = config.training.z_loss;
  if (tp.size() > 1) {
    options.reduce_max = [&tp](at::Tensor& values) {
      all_reduce(tp, values, ReduceOp::kMax);
    };
    options.reduce_sum = [&tp](at::Tensor& values) { all_reduce(tp, values); };
  }
  return options;
}

}  // namespace triax
