// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/config/run_config.h"

namespace triax {

/// The sizes of a model that is known by name ("llama-3-8b") or by its Hugging
/// Face config.json (the file or its folder), of any architecture: what the
/// rules over shapes read. Sizes that the file does not say are 0, but KV
/// heads and head_dim follow from the others. Throws Error.
ModelConfig load_model_shape(const std::string& name_or_path);

/// The same for the text of a config.json.
ModelConfig parse_model_shape(std::string_view text, const std::string& file);

/// The names that are known.
std::vector<std::string_view> known_models();

}  // namespace triax
