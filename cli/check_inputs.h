// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triax/check/foreign_findings.h"
#include "triax/config/load.h"
#include "triax/config/problem.h"
#include "triax/foreign/foreign_config.h"

namespace triax {

/// What `triax check` was asked for. Empty texts and nullopt: not given.
struct CheckArguments {
  std::vector<std::string> files;
  /// After "--": Megatron-LM's arguments.
  std::vector<std::string> words;
  std::string kind;  // empty: by name and content
  std::string model;
  std::string cluster;
  std::string reference;
  std::optional<int> num_ranks;
  std::string format = "text";
  bool fixes = false;
  /// Writes the run for this system instead.
  std::string to;
};

/// One file (or the words), and whose it is.
struct CheckInput {
  std::string file;
  std::string text;  // without a byte order mark
  bool has_mark = false;
  System system = System::kTriax;
  /// Of another system.
  std::optional<ForeignConfig> config = {};
  /// Of triax itself, resolved for the ranks there will be.
  std::optional<LoadedConfig> loaded = {};
  /// Why it could not be read so far.
  std::optional<Problem> problem = {};
};

/// Reads every file and the words, once each. Throws nothing for what they
/// hold; Error for a kind or a version that is not known, and for arguments
/// that do not go together.
std::vector<CheckInput> read_inputs(const CheckArguments& arguments,
                                    const ForeignContext& context);

/// Reads `input.text` as a config of its system.
void parse_input(CheckInput& input, const ForeignContext& context);

/// --model, --world, --cluster and --reference. Throws Error. A cluster file is
/// TOML: hosts, devices_per_host, device_memory ("80GiB"), network ("50GB/s",
/// of one device); --world wins over hosts * devices_per_host.
ForeignContext make_context(const CheckArguments& arguments);

}  // namespace triax
