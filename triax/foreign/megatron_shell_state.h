// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "triax/foreign/megatron_shell_values.h"

namespace triax {

/// What a script holds while it is followed, and how much work that may be.
class ShellState {
 public:
  explicit ShellState(const std::map<std::string, std::string>& given);

  /// nullptr: nothing has set it.
  const ShellValue* find(const std::string& name) const;
  /// nullopt: unset it.
  void set(const std::string& name, std::optional<ShellValue> value);
  const std::unordered_map<std::string, ShellValue>& variables() const {
    return variables_;
  }

  /// Counts copied bytes; false, and failed, beyond what any script needs.
  bool spend(size_t bytes, size_t offset);
  /// The first reason stays.
  void fail(const std::string& why, size_t offset);
  bool has_failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  size_t error_offset() const { return error_offset_; }

  /// What one branch of several set; no value: it unset it.
  using Changes = std::unordered_map<std::string, std::optional<ShellValue>>;

  /// Runs a branch, and takes back what it set.
  Changes try_branch(const std::function<void()>& run);
  /// What holds after one of these branches was run, or, unless `is_certain`,
  /// none of them.
  void merge(const std::vector<Changes>& branches, bool is_certain);

  /// Arguments of the functions that are running, the innermost last.
  std::vector<std::vector<ShellField>> calls;
  std::map<std::string, bool> exported;
  /// It has read a file, whose variables are not known: nothing is certainly
  /// unset any more.
  bool reads_others = false;

 private:
  Changes take_back(Changes& before);

  std::unordered_map<std::string, ShellValue> variables_;
  std::vector<Changes*> changes_;
  size_t copied_ = 0;
  std::string error_;
  size_t error_offset_ = 0;
};

}  // namespace triax
