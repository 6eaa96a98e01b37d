// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "triax/foreign/foreign_config.h"

namespace triax {

/// Megatron-LM's arguments as its own code would see them, with the parser's
/// defaults, and three answers where the script leaves something open: yes,
/// no, not known. Where words like $EXTRA may hold more arguments, where a
/// checkpoint or a YAML file brings its own, nothing that is absent is known
/// to be absent.
class MegatronArguments {
 public:
  explicit MegatronArguments(const ForeignConfig& config);

  const ForeignConfig& config() const { return config_; }

  /// It stands there, whatever its value.
  bool is_set(std::string_view key) const { return find(key) != nullptr; }
  /// A switch that is there for certain.
  bool is_on(std::string_view key) const;
  /// Certainly not there (and so at its default).
  bool is_off(std::string_view key) const { return is_closed_ && !is_set(key); }

  /// The value or the default; nullopt: not known, none, or of another type.
  std::optional<int64_t> whole(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  /// The items of a list; a single text that is given is a list of one.
  /// nullopt: not known or not set.
  std::optional<std::vector<std::string>> items(std::string_view key) const;

  bool is_text(std::string_view key, std::string_view value) const {
    const std::optional<std::string> held = text(key);
    return held && *held == value;
  }

  /// Of Megatron-DeepSpeed's, whose parser and checks are others.
  bool is_deepspeed() const { return is_deepspeed_; }
  /// Nothing can add arguments that are not seen.
  bool is_closed() const { return is_closed_; }
  /// Why it is not closed, in words; empty: it is.
  const std::string& why_open() const { return why_open_; }
  /// The script's name without its folder; empty: not known.
  const std::string& script() const { return script_; }
  /// They are all of a command line, whose program is not named.
  bool is_command_line() const { return is_command_line_; }

 private:
  const ConfigValue* find(std::string_view key) const;

  const ForeignConfig& config_;
  std::unordered_map<std::string_view, const ConfigValue*> values_;
  std::string script_;
  std::string why_open_;
  bool is_command_line_ = false;
  bool is_deepspeed_ = false;
  bool is_closed_ = true;
};

}  // namespace triax
