// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "triax/model/linear.h"
#include "triax/model/parameter_slot.h"

namespace triax {

struct EmbeddingOptions {
  int64_t num_ids = 0;  // valid ids are [0, num_ids)
  int64_t features = 0;
  ParameterRole role = ParameterRole::kEmbedding;
};

/// Rows of a table [rows, H] by id: ids [..] int64 → [.., H]. Holds the ids
/// [first_row, first_row + num_valid); the others give rows of zeros, so that
/// the sum over all holders is the whole table's answer. Rows past num_valid
/// are padding and stay zero. Keeps the ids for backward.
class Embedding : public ParameterModule {
 public:
  explicit Embedding(const EmbeddingOptions& options);

  /// Throws Error when an id is not in [0, num_ids).
  at::Tensor forward(const at::Tensor& ids);
  std::vector<ParameterSlot*> own_slots() override { return {weight.get()}; }

  Boundary on_output;
  int64_t first_row = 0;
  int64_t num_valid = 0;

  std::shared_ptr<ParameterSlot> weight;

 private:
  const int64_t num_ids_;
};

}  // namespace triax
