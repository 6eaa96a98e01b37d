// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triax {

/// The layers [first_layer, first_layer + num_layers) of a model, with or
/// without what stands before and after them. The whole model is one part.
struct ModelPart {
  int first_layer = 0;
  int num_layers = 0;
  bool has_embedding = true;
  bool has_head = true;

  bool operator==(const ModelPart&) const = default;
};

}  // namespace triax
