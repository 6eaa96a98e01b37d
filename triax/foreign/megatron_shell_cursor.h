// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "triax/foreign/megatron_shell_words.h"

namespace triax {

/// A place in a script, and what stands between its commands: blanks,
/// comments, continued lines, redirections and here-documents, all of which
/// are passed over. The first error stays.
class ShellCursor {
 protected:
  explicit ShellCursor(std::string_view text) : text_(text), reader_(text) {}

  bool at_end();
  void fail(const std::string& why);
  /// A stray `)`, `}` or `done`.
  void skip_stray();
  /// Blanks, continued lines and comments; not the newline itself.
  void skip_blanks();
  void skip_newlines();
  void skip_redirections();
  /// 2>&1, > FILE, &> FILE, << END, <<< WORD, <( … ).
  bool skip_redirection();

  ShellWord read_word();
  /// The bare word that comes next, without taking it.
  std::string_view next_bare_word();
  bool next_is(std::initializer_list<std::string_view> words);
  bool take(std::string_view word);

  std::string_view text_;
  ShellWordReader reader_;
  std::string error_;
  size_t error_offset_ = 0;

 private:
  /// A newline ends the line, and begins the here-documents it asked for.
  void take_newline();
  void take_here_document();
  void skip_here_document(const std::string& delimiter);

  std::vector<std::string> here_documents_;
};

}  // namespace triax
