// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/base/range.h"

namespace triax {

/// What a parameter is, which decides weight decay and how it is drawn.
enum class ParameterRole {
  kEmbedding,
  kPosition,
  kMatrix,
  kHead,
  kBias,
  kNorm
};

/// How the elements of a logical parameter begin: normal(0, std) or constant.
struct InitialValue {
  double normal_std = 0.0;
  double constant = 0.0;

  bool operator==(const InitialValue&) const = default;
};

/// A rectangle of one logical parameter and where it stands in a stored one.
///
/// Logical parameters have Hugging Face's names and shapes. Fused qkv, GPT-2's
/// Conv1D, tensor parallelism, initial weights, checkpoints and import are all
/// said with pieces. Stored elements that no piece covers are padding: they
/// are zero and exist only in memory.
struct Piece {
  std::string logical_name;
  std::vector<int64_t> logical_shape;
  /// The rectangle, one range per logical dim.
  std::vector<Range> logical_range;
  /// Where its first element stands, one index per stored dim.
  std::vector<int64_t> stored_start;
  /// Two dims only: stored[s0 + j][s1 + i] = logical[l0 + i][l1 + j].
  bool transposed = false;
  /// Ranks along tp that hold this same rectangle (KV heads fewer than tp, or
  /// a replicated parameter), and this rank's number among them.
  int num_replicas = 1;
  int replica = 0;
  InitialValue initial;

  /// The stored rows that it covers; only for pieces that cover whole rows.
  Range stored_rows() const {
    return {stored_start[0], logical_range[transposed ? 1 : 0].length};
  }

  int64_t numel() const {
    int64_t product = 1;
    for (const Range& range : logical_range) {
      product *= range.length;
    }
    return product;
  }
};

/// A parameter as one rank stores it.
struct ParameterLayout {
  /// The module's path: "blocks.3.attention.qkv.weight".
  std::string name;
  std::vector<int64_t> shape;
  ParameterRole role = ParameterRole::kMatrix;
  std::vector<Piece> pieces;
  /// Replicas of a piece see different parts of the computation (KV heads
  /// fewer than tp): their gradients must be summed over the replicas.
  /// Otherwise replicas compute equal gradients.
  bool is_gradient_partial = false;

  int64_t numel() const {
    int64_t product = 1;
    for (int64_t length : shape) {
      product *= length;
    }
    return product;
  }
};

}  // namespace triax
