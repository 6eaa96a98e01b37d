// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/translate_source.h"

namespace triax {

/// What a model is besides its sizes: the norm's epsilon, RoPE's base and its
/// scaling, biases, dropouts, the architecture where it is no plain llama or
/// gpt2. By a name that load_model_shape() knows, or by a config.json (the file
/// or its folder), with transformers' defaults for llama, mistral, qwen2, qwen3
/// and gpt2. What is not known is left out. Throws Error.
std::vector<NamedFact> load_model_details(const std::string& name_or_path);

/// What of these a name leaves open, because its releases differ, in a
/// sentence; empty: nothing.
std::string open_model_detail(std::string_view name);

/// The same for the text of a config.json.
std::vector<NamedFact> parse_model_details(std::string_view text,
                                           const std::string& file);

}  // namespace triax
