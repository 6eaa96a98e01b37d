// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/run_facts.h"

namespace triax {

/// One system whose configs are read: what the front and the rules need of
/// it. A reader adds one row to the table in systems.cpp and nothing else.
struct SystemEntry {
  System system = System::kTriax;
  std::string_view name;   // for --kind and --to: "deepspeed"
  std::string_view title;  // for people: "DeepSpeed 0.19.8"
  /// How much a file looks like this system's: 0 not at all, 100 for sure.
  /// Must be cheap and must survive any bytes.
  int (*likeness)(std::string_view file_name, std::string_view text) = nullptr;
  /// Never throws for what the text holds: problems are listed, and after the
  /// rules "unreadable" and "syntax" the table is empty.
  ForeignConfig (*read)(std::string_view text,
                        const std::string& file) = nullptr;
  /// Every key the system knows, and those it knew.
  const KeyTable& (*keys)() = nullptr;
  /// What the config says of the run. Values of a wrong type say nothing.
  RunFacts (*facts)(const ForeignConfig& config) = nullptr;
  /// Reads the words of a command line, where the system takes its config
  /// from one; else nullptr.
  ForeignConfig (*read_words)(const std::vector<std::string>& words) = nullptr;
  /// Which versions the rules can be asked for: for people, and by name.
  /// DeepSpeed has a table of releases instead (versions.h).
  std::string_view versions = {};
  bool (*knows_version)(std::string_view version) = nullptr;
};

/// The table, without triax itself.
const std::vector<SystemEntry>& foreign_systems();

/// nullptr for triax, whose files triax/config reads.
const SystemEntry* find_system(System system);

/// "triax", "deepspeed", "megatron", "torchtitan", "nanotron".
std::string_view system_name(System system);
std::optional<System> parse_system(std::string_view name);

/// The system that a file most likely is of, by its name and content; nullopt:
/// cannot be told. A .toml is whose keys it holds more of.
std::optional<System> detect_system(std::string_view file_name,
                                    std::string_view text);

}  // namespace triax
