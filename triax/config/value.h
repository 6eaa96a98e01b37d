// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace triax {

/// A place in a file. line 0: the file as a whole, or, with file
/// "command line", an override. Lines and columns count from 1.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

struct ConfigValue;
struct ConfigEntry;
using ConfigArray = std::vector<ConfigValue>;
using ConfigTable = std::vector<ConfigEntry>;

/// A value that no field takes, a date for instance: what to call it.
struct ForeignValue {
  std::string kind;
};

/// A value of a config file and where it stands, whatever the file's format.
struct ConfigValue {
  std::variant<bool,
               int64_t,
               double,
               std::string,
               ConfigArray,
               ConfigTable,
               ForeignValue>
      data;
  Position position;
};

struct ConfigEntry {
  std::string key;
  Position key_position;
  ConfigValue value;
};

/// "a whole number", "a text", …: for messages.
std::string kind_of(const ConfigValue& value);

}  // namespace triax
