// SPDX-License-Identifier: Apache-2.0
#include "triax/plan/model_stats.h"

#include "triax/base/error.h"
#include "triax/plan/logical_parameters.h"

namespace triax {
namespace {

/// Of q kᵀ and of the product with v, for one token in all layers.
double attention_forward_flops(const ModelConfig& model,
                               int64_t sequence_length,
                               FlopsKind kind) {
  const double whole =
      4.0 * model.num_hidden_layers * sequence_length *
      static_cast<double>(model.num_attention_heads * model.head_dim);
  return kind == FlopsKind::kCausal ? whole / 2 : whole;
}

}  // namespace

int64_t num_parameters(const ModelConfig& model) {
  int64_t count = 0;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    count += parameter.numel();
  }
  return count;
}

int64_t num_matmul_parameters(const ModelConfig& model) {
  int64_t count = model.vocab_size * model.hidden_size;
  for (const LogicalParameter& parameter : logical_parameters(model)) {
    if (parameter.role == ParameterRole::kMatrix) {
      count += parameter.numel();
    }
  }
  return count;
}

StoredCount count_stored(const std::vector<ParameterLayout>& layouts) {
  StoredCount count;
  for (const ParameterLayout& layout : layouts) {
    count.num_stored += layout.numel();
    count.num_padding += layout.numel();
    for (const Piece& piece : layout.pieces) {
      count.num_padding -= piece.numel();
    }
  }
  return count;
}

std::string_view flops_formula(FlopsKind kind) {
  switch (kind) {
    case FlopsKind::kPalm:
      return "6 N + 12 L s a d (PaLM, appendix B: attention not causal)";
    case FlopsKind::kCausal:
      return "6 N + 6 L s a d (PaLM, appendix B, halved: attention causal)";
  }
  return "?";
}

double flops_per_token(const ModelConfig& model,
                       int64_t sequence_length,
                       FlopsKind kind) {
  return 6.0 * num_matmul_parameters(model) +
         3.0 * attention_forward_flops(model, sequence_length, kind);
}

double recomputed_flops_per_token(const RunConfig& config, FlopsKind kind) {
  const ModelConfig& model = config.model;
  const double attention =
      attention_forward_flops(model, config.data.sequence_length, kind);
  switch (config.memory.recompute) {
    case Recompute::kNone:
      return 0.0;
    case Recompute::kSelective:
      return model.attn_pdrop > 0.0 ? attention : 0.0;
    case Recompute::kFull:
    case Recompute::kEveryK: {
      const int64_t head = model.vocab_size * model.hidden_size;
      return 2.0 * (num_matmul_parameters(model) - head) + attention;
    }
  }
  return 0.0;
}

double model_flops_utilization(double tokens_per_second,
                               double flops_per_token,
                               double peak_flops) {
  TRIAX_CHECK(peak_flops > 0.0, "peak_flops is ", peak_flops);
  return tokens_per_second * flops_per_token / peak_flops;
}

}  // namespace triax
