// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace triax {

/// A part of a shell word before anything is expanded.
struct ShellPart {
  enum class Kind {
    kText,        // as it stands
    kParameter,   // $X, ${X:-1}: `text` is what stands between the braces
    kArithmetic,  // $(( … )): `text` is the formula
    kCommand,     // $( … ), ` … `: what it prints is not known
  };
  Kind kind = Kind::kText;
  std::string text;
  size_t offset = 0;  // of its first byte in the file
  bool is_quoted = false;
};

struct ShellWord {
  std::vector<ShellPart> parts;
  size_t offset = 0;
};

/// NAME=WORD, NAME+=WORD, NAME=( WORDS ), NAME[I]=WORD.
struct ShellAssignment {
  std::string name;
  bool appends = false;
  bool is_array = false;
  bool is_item = false;          // of an array
  std::vector<ShellWord> words;  // one, unless it is an array
};

struct ShellNode;
using ShellList = std::vector<ShellNode>;

/// A command, simple or compound, with what joins it to the one before.
struct ShellNode {
  enum class Kind { kSimple, kGroup, kIf, kLoop, kCase, kFunction, kFormula };
  Kind kind = Kind::kSimple;
  size_t offset = 0;
  /// It runs only after what stood before && or || said so.
  char joined_by = ';';                      // ';', '&' (and), '|' (or)
  std::vector<ShellAssignment> assignments;  // kSimple
  /// kSimple: the command; kLoop of "for": the items; kCase: the subject.
  std::vector<ShellWord> words;
  /// kLoop: the variable, empty for while; kFunction: its name; kFormula;
  /// kGroup: "(" where it has a shell of its own.
  std::string name;
  struct Branch {
    std::vector<ShellWord> patterns;  // kCase
    ShellList condition;              // kIf, kLoop
    ShellList body;
  };
  std::vector<Branch> branches;
  bool has_else = false;  // kIf: the last branch has no condition
};

struct ShellScript {
  ShellList commands;
  /// Why it cannot be read and where; empty: it was.
  std::string error;
  size_t error_offset = 0;
};

/// The commands of a shell script. Reads what bash reads as far as arguments
/// are concerned: redirections, here-documents and comments are dropped, the
/// texts of command substitutions are passed over. Nesting and size are
/// bounded; memory grows with the text only.
ShellScript parse_shell(std::string_view text);

/// One word's parts, as inside double quotes; for the word of ${X:-word}.
ShellWord parse_shell_word(std::string_view text, size_t offset);

}  // namespace triax
