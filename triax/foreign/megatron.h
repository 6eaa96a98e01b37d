// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/run_facts.h"

namespace triax {

/// Megatron-LM's arguments, as its parser (argparse, no abbreviations, the
/// last of a repeated argument wins) reads them: from a shell script that
/// starts it, or from a file that is nothing but arguments.
///
/// The table holds one entry an argument, without its dashes: true for a
/// switch, a list where it takes several values, and a ForeignValue where the
/// script does not say what it gets ("$1", something set under a condition).
/// Two tables come before them: "launch" (script, nodes, ranks-per-node,
/// world, open: words that may be more arguments, defaults: keys whose value
/// the caller may replace, words: they are a command line's) and "environment"
/// (what is exported).

/// How much it looks like a script or a list of Megatron-LM arguments.
int megatron_likeness(std::string_view file_name, std::string_view text);

ForeignConfig read_megatron(std::string_view text, const std::string& file);

/// The words of a command line, "--num-layers", "24"; positions: none.
ForeignConfig read_megatron_words(const std::vector<std::string>& words);

/// Of megatron-core 0.19.2, with what older versions and forks knew.
const KeyTable& megatron_keys();

RunFacts megatron_facts(const ForeignConfig& config);

}  // namespace triax
