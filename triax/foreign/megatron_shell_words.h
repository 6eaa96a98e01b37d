// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triax/foreign/megatron_shell_syntax.h"

namespace triax {

bool is_shell_blank(char c);
bool is_shell_name_char(char c);
bool is_shell_name_start(char c);
/// A blank, a newline or an operator's byte.
bool ends_shell_word(char c);

/// Where the `close` stands whose opening ends before `at`, past all that is
/// nested in between ($( … ), ${ … }, ` … `, quotes); npos: nowhere.
size_t find_shell_close(std::string_view text, size_t at, char close);

/// The bare text of a word without quotes or expansions; empty: it has some.
std::string_view bare_text(const ShellWord& word);

/// Reads words. Newlines, operators and reserved words are the parser's.
class ShellWordReader {
 public:
  explicit ShellWordReader(std::string_view text, size_t base = 0)
      : text_(text), base_(base) {}

  size_t at = 0;
  std::string error;

  bool is_done() const { return at >= text_.size(); }
  char peek(size_t ahead = 0) const {
    return at + ahead < text_.size() ? text_[at + ahead] : '\0';
  }

  ShellWord read_word();
  /// Everything to the end, as inside double quotes.
  ShellWord read_all();

 private:
  void read_piece(ShellWord& word, bool quoted);
  void read_escape(ShellWord& word, bool quoted);
  void read_dollar(ShellWord& word, bool quoted);
  void read_plain_parameter(ShellWord& word, bool quoted);
  void read_arithmetic(ShellWord& word, bool quoted);
  void read_skipped(ShellWord& word,
                    bool quoted,
                    size_t opening,
                    char close,
                    ShellPart::Kind kind);
  void read_double_quotes(ShellWord& word);
  void read_single_quotes(ShellWord& word, size_t opening);

  std::string_view text_;
  size_t base_;
};

}  // namespace triax
