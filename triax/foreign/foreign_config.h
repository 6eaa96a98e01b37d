// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triax/config/problem.h"
#include "triax/config/value.h"

namespace triax {

/// The systems whose configs are read.
enum class System { kTriax, kDeepSpeed, kMegatron, kTorchTitan, kNanotron };

/// A config of another system, as its own reader sees it.
struct ForeignConfig {
  System system = System::kDeepSpeed;
  std::string file;
  /// Keys as the system names them, in the file's order, with positions.
  /// Megatron's flags are keys without their dashes; a switch is `true`.
  ConfigTable table;
  /// What went wrong in reading. Rules "unreadable" and "syntax": no table.
  std::vector<Problem> problems;
};

/// The value at a path of names, "zero_optimization.stage"; nullptr: not set.
/// A key that itself contains dots is found by its whole name too.
const ConfigValue* find_value(const ConfigTable& table, std::string_view path);

/// The entry itself, for the position of its key.
const ConfigEntry* find_entry(const ConfigTable& table, std::string_view path);

/// The value as the system would write it in one line, cut after 60 bytes:
/// for messages.
std::string value_text(const ConfigValue& value);

}  // namespace triax
