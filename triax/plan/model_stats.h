// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triax/base/piece.h"
#include "triax/config/run_config.h"

namespace triax {

// What a model costs, whatever the layout. `model` must be resolved.

/// Elements of all logical parameters; a tied head counts once.
int64_t num_parameters(const ModelConfig& model);

/// Parameters that every token is multiplied with: the layers' matrices and
/// the head, tied or not. Not the embedding, the positions, norms and biases.
int64_t num_matmul_parameters(const ModelConfig& model);

/// Elements in memory, and how many of them no logical parameter covers.
struct StoredCount {
  int64_t num_stored = 0;
  int64_t num_padding = 0;

  bool operator==(const StoredCount&) const = default;
};

StoredCount count_stored(const std::vector<ParameterLayout>& layouts);

/// How attention's products are counted. kPalm: every query with every key,
/// as Megatron-LM, PaLM, nanotron and TorchTitan print it. kCausal: half.
enum class FlopsKind { kPalm, kCausal };

/// The formula and its source, to print beside the number.
std::string_view flops_formula(FlopsKind kind);

/// Floating-point operations of the model for one token, forward and backward
/// (recompute is not the model's): 6 N + 12 L s a d, with N the matmul
/// parameters, L layers, s the sequence length, a heads and d head_dim
/// (Chowdhery et al. 2022, PaLM, appendix B); kCausal has 6 L s a d.
double flops_per_token(const ModelConfig& model,
                       int64_t sequence_length,
                       FlopsKind kind);

/// Operations that recompute adds to those of one token: a second forward of
/// the layers (2 N' + 4 L s a d; N' without the head), or of attention's
/// products where selective recompute redoes its probabilities.
double recomputed_flops_per_token(const RunConfig& config, FlopsKind kind);

/// Model FLOPs utilization: the share of `peak_flops` (of all ranks together,
/// per second) that the model's own operations are.
double model_flops_utilization(double tokens_per_second,
                               double flops_per_token,
                               double peak_flops);

}  // namespace triax
