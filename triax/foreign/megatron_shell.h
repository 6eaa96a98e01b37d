// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

/// A stretch of an expanded word, and where it stands in the script.
struct ShellPiece {
  std::string text;  // of what is not known: what stands for it, "$1"
  size_t offset = 0;
  bool is_known = true;
  /// It is there under a condition that the script alone does not decide.
  bool is_maybe = false;
  /// Not known because nothing in the script sets it.
  bool is_unset = false;
  /// A number that a variable holds, which whoever copies a script may change.
  bool is_setting = false;
  /// The default of something that the caller may set: "${PP:-1}".
  bool is_default = false;
  /// Not known and not in quotes: it may be any number of words, or none.
  bool is_open = false;

  bool operator==(const ShellPiece&) const = default;
};

/// A word as a program would get it, as far as the script says.
struct ShellField {
  std::vector<ShellPiece> pieces;

  std::string text() const;
  bool is_known() const;
  bool is_maybe() const;
  /// Where it begins; what is not known: where its $ stands.
  size_t offset() const { return pieces.empty() ? 0 : pieces[0].offset; }

  bool operator==(const ShellField&) const = default;
};

/// A command that the script starts and that has arguments with dashes.
struct ShellRun {
  std::vector<ShellField> fields;
  /// NAME=VALUE before it, and what was exported until then.
  std::map<std::string, ShellField> environment;
};

struct ShellRuns {
  std::vector<ShellRun> runs;
  /// Variables at the end; of arrays all items.
  std::map<std::string, std::vector<ShellField>> variables;
  std::string error;  // why it cannot be judged
  size_t error_offset = 0;
};

/// What a script would start. Nothing runs: variables, arrays, defaults,
/// arithmetic, functions and tests over known values are followed; branches
/// that depend on the unknown make what they set unknown or "maybe". Work and
/// memory are bounded whatever the script holds.
/// `given`: variables that are known from elsewhere (SLURM_NNODES).
ShellRuns follow_shell(std::string_view text,
                       const std::map<std::string, std::string>& given = {});

/// One string split into words at its blanks, quotes taken off.
std::vector<ShellField> split_fields(const ShellField& field);

}  // namespace triax
