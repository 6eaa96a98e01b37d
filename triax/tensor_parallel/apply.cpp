// SPDX-License-Identifier: Apache-2.0
#include "triax/tensor_parallel/apply.h"

#include "triax/mesh/tensor_group.h"
#include "triax/model/allocate.h"
#include "triax/plan/sharding.h"
#include "triax/tensor_parallel/boundary.h"

namespace triax {

void apply_tensor_parallel(Transformer& model,
                           const ModelConfig& config,
                           const ModelPart& part,
                           Group& tp) {
  set_layouts(model, parameter_layouts(config, part, tp.size(), tp.rank()));
  if (tp.size() == 1) {
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
