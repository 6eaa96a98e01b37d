// SPDX-License-Identifier: Apache-2.0
#include "triax/model/attention.h"

#include "triax/base/error.h"
#include "triax/memory/recompute.h"

namespace triax {

Attention::Attention(const AttentionOptions& options)
    : head_dim_(options.head_dim),
      dropout_{.probability = options.dropout,
               .site = DropoutSite::kAttention,
               .layer = options.layer},
      rotary_(options.rotary) {
  const int64_t num_rows = options.num_heads + 2 * options.num_key_value_heads;
  qkv = register_module("qkv",
                        std::make_shared<Linear>(LinearOptions{
                            .in_features = options.hidden_size,
                            .out_features = num_rows * options.head_dim,
                            .has_bias = options.has_bias}));
  out = register_module("out",
                        std::make_shared<Linear>(LinearOptions{
                            .in_features = options.num_heads * options.head_dim,
                            .out_features = options.hidden_size,
                            .has_bias = options.has_bias}));
}

HeadCounts Attention::heads() const {
  const int64_t num_queries = out->in_features() / head_dim_;
  const int64_t num_keys = (qkv->out_features() / head_dim_ - num_queries) / 2;
  TRIAX_CHECK(
      num_keys > 0 && num_queries % num_keys == 0 &&
          (num_queries + 2 * num_keys) * head_dim_ == qkv->out_features(),
      qkv->weight->layout.name,
      ": ",
      num_queries,
      " query heads, ",
      qkv->out_features(),
      " rows");
  return {num_queries, num_keys, head_dim_};
}

at::Tensor Attention::forward(const at::Tensor& x,
                              const Place& place,
                              const Redo& redo) {
  const HeadCounts counts = heads();
  at::Tensor rows = qkv->forward(x, redo);  // [B, S, (q + 2 k) D]
  if (rotary_) {
    const RotaryAngles angles =
        rotary_->angles(place.first_position, rows.size(1), rows.scalar_type());
    rows = rotate_(rows, angles, counts.num_queries + counts.num_keys);
  }
  if (dropout_.probability == 0.0 || !place.is_training) {
    return out->forward(attend(rows, counts, place.document_ids));
  }
  if (!redoes_probabilities) {
    return out->forward(attend_dropping(rows, counts, place));
  }
  const auto segment = [this, counts, place](const at::Tensor& rows) {
    return attend_dropping(rows, counts, place);
  };
  return out->forward(recompute(rows, segment, /*is_trained=*/false));
}

at::Tensor Attention::attend_dropping(const at::Tensor& rows,
                                      const HeadCounts& counts,
                                      const Place& place) const {
  const at::Tensor keep = attention_keep_mask(
      dropout_,
      place,
      first_head,
      {rows.size(0), counts.num_queries, rows.size(1), rows.size(1)});
  return attend_with_dropout(
      rows, counts, place.document_ids, keep, dropout_.probability);
}

}  // namespace triax
