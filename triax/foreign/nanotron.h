// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/run_facts.h"

namespace triax {

// nanotron's YAML, in the layout of the repository (data_stages, an
// optimizer_factory) and in that of the package 0.4 (data, Adam's numbers in
// the optimizer's section). Named as SystemEntry names them.

int nanotron_likeness(std::string_view file_name, std::string_view text);
ForeignConfig read_nanotron(std::string_view text, const std::string& file);
const KeyTable& nanotron_keys();
RunFacts nanotron_facts(const ForeignConfig& config);

/// The keys of the package 0.4.
const KeyTable& nanotron_old_keys();

/// The config has 0.4's layout.
bool is_old_nanotron(const ForeignConfig& config);

/// Which class its model_config is of: "llama", "qwen2", "starcoder2", by its
/// is_…_config key, "llama" without one; another name: a class of the user's.
std::string nanotron_model_class(const ForeignConfig& config);

}  // namespace triax
