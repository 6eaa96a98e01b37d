// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "triax/base/dtype.h"
#include "triax/config/model_part.h"
#include "triax/config/run_config.h"
#include "triax/model/transformer.h"

namespace triax {

/// Resolved configs of a few thousand parameters: 4 layers, hidden 16, 4
/// heads; Llama with 2 KV heads and an untied head, GPT-2 tied, no dropout.
ModelConfig tiny_llama();
ModelConfig tiny_gpt2();

ModelPart whole_model(const ModelConfig& config);

/// Laid out as rank `tp_rank` of `tp`, with storage and initial values.
std::shared_ptr<Transformer> make_transformer(const ModelConfig& config,
                                              const ModelPart& part,
                                              DType dtype = DType::kFloat64,
                                              uint64_t seed = 1,
                                              int tp = 1,
                                              int tp_rank = 0);

/// The slot of that name; fails loudly when there is none.
ParameterSlot& find_slot(Transformer& model, const std::string& name);

}  // namespace triax
