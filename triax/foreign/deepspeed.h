// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/run_facts.h"

namespace triax {

/// A DeepSpeed config, a JSON or Hjson file. Rule "syntax" for what
/// DeepSpeed's loader refuses, a root that is no table among it, and for
/// base64 text, which DeepSpeed takes as an argument but not as a file.
ForeignConfig read_deepspeed(std::string_view text, const std::string& file);

int deepspeed_likeness(std::string_view file_name, std::string_view text);

/// Every key of the config classes of DeepSpeed 0.19.8.
const KeyTable& deepspeed_keys();

/// Its facts; a value "auto", which transformers' Trainer fills, says nothing.
RunFacts deepspeed_facts(const ForeignConfig& config);

/// elasticity.enabled: DeepSpeed before 0.19.8 then chooses the batch sizes,
/// and those of the config are no facts.
bool is_elastic(const ForeignConfig& config);

/// The paths where transformers' Trainer or accelerate replaces "auto" before
/// DeepSpeed sees it.
const std::vector<std::string_view>& trainer_filled_paths();

}  // namespace triax
