// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_words.h"

#include <cctype>

namespace triax {
namespace {

// Passes over $( … ), ${ … } and ` … ` whatever they nest. A stack of the
// closing bytes instead of recursion: the nesting is the file's.
class Skipper {
 public:
  explicit Skipper(std::string_view text) : text_(text) {}

  // `at` stands behind the opening; returns the place of its `close`, or npos.
  size_t find_close(size_t at, char close) const {
    std::string closers(1, close);
    while (at < text_.size()) {
      const char c = text_[at];
      if (c == '\\') {
        at += 2;
      } else if (c == closers.back()) {
        closers.pop_back();
        if (closers.empty()) {
          return at;
        }
        ++at;
      } else {
        at = step(at, closers);
      }
    }
    return std::string_view::npos;
  }

 private:
  size_t step(size_t at, std::string& closers) const {
    const char c = text_[at];
    const bool in_quotes = closers.back() == '"';
    const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
    if (c == '\'' && !in_quotes) {
      const size_t end = text_.find('\'', at + 1);
      return end == std::string_view::npos ? text_.size() : end + 1;
    }
    if (c == '"') {
      closers += '"';
    } else if (c == '$' && next == '(') {
      closers += ')';
      return at + 2;
    } else if (c == '$' && next == '{') {
      closers += '}';
      return at + 2;
    } else if (c == '`') {
      closers += '`';
    } else if (c == '(' && closers.back() == ')') {
      closers += ')';
    }
    return at + 1;
  }

  std::string_view text_;
};

// Text that is not contiguous in the file begins a new part.
void add_text(ShellWord& word, size_t offset, char c, bool quoted) {
  ShellPart* last = word.parts.empty() ? nullptr : &word.parts.back();
  if (last == nullptr || last->kind != ShellPart::Kind::kText ||
      last->is_quoted != quoted || last->offset + last->text.size() != offset) {
    word.parts.push_back({ShellPart::Kind::kText, "", offset, quoted});
    last = &word.parts.back();
  }
  last->text += c;
}

}  // namespace

bool is_shell_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_shell_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_shell_name_start(char c) {
  return is_shell_name_char(c) &&
         std::isdigit(static_cast<unsigned char>(c)) == 0;
}

bool ends_shell_word(char c) {
  return is_shell_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' ||
         c == '<' || c == '>' || c == '(' || c == ')';
}

size_t find_shell_close(std::string_view text, size_t at, char close) {
  return Skipper(text).find_close(at, close);
}

std::string_view bare_text(const ShellWord& word) {
  const bool is_bare = word.parts.size() == 1 &&
                       word.parts[0].kind == ShellPart::Kind::kText &&
                       !word.parts[0].is_quoted;
  return is_bare ? std::string_view(word.parts[0].text) : std::string_view();
}

ShellWord ShellWordReader::read_word() {
  ShellWord word;
  word.offset = base_ + at;
  while (!is_done() && !ends_shell_word(peek()) && error.empty()) {
    read_piece(word, false);
  }
  return word;
}

ShellWord ShellWordReader::read_all() {
  ShellWord word;
  word.offset = base_;
  while (!is_done() && error.empty()) {
    if (peek() == '"' || peek() == '\'') {
      read_piece(word, false);
    } else if (ends_shell_word(peek())) {
      add_text(word, base_ + at, peek(), false);
      ++at;
    } else {
      read_piece(word, false);
    }
  }
  return word;
}

void ShellWordReader::read_piece(ShellWord& word, bool quoted) {
  const char c = peek();
  if (c == '\\') {
    read_escape(word, quoted);
  } else if (c == '$') {
    read_dollar(word, quoted);
  } else if (c == '`') {
    read_skipped(word, quoted, 1, '`', ShellPart::Kind::kCommand);
  } else if (c == '"' && !quoted) {
    read_double_quotes(word);
  } else if (c == '\'' && !quoted) {
    read_single_quotes(word, 1);
  } else {
    add_text(word, base_ + at, c, quoted);
    ++at;
  }
}

void ShellWordReader::read_escape(ShellWord& word, bool quoted) {
  const char next = peek(1);
  const bool is_special =
      next == '$' || next == '`' || next == '"' || next == '\\' || next == '\n';
  if (next == '\r' && peek(2) == '\n') {
    at += 3;
  } else if (next == '\n') {
    at += 2;
  } else if (quoted && !is_special) {
    add_text(word, base_ + at, '\\', quoted);
    ++at;
  } else if (next == '\0') {
    ++at;
  } else {
    add_text(word, base_ + at + 1, next, true);
    at += 2;
  }
}

void ShellWordReader::read_dollar(ShellWord& word, bool quoted) {
  const char next = peek(1);
  if (next == '\'' && !quoted) {
    ++at;
    read_single_quotes(word, 1);
  } else if (next == '(' && peek(2) == '(') {
    read_arithmetic(word, quoted);
  } else if (next == '(') {
    read_skipped(word, quoted, 2, ')', ShellPart::Kind::kCommand);
  } else if (next == '[') {  // an old $(( … ))
    read_skipped(word, quoted, 2, ']', ShellPart::Kind::kArithmetic);
  } else if (next == '{') {
    read_skipped(word, quoted, 2, '}', ShellPart::Kind::kParameter);
  } else {
    read_plain_parameter(word, quoted);
  }
}

void ShellWordReader::read_plain_parameter(ShellWord& word, bool quoted) {
  size_t end = at + 1;
  if (is_shell_name_start(peek(1))) {
    while (end < text_.size() && is_shell_name_char(text_[end])) {
      ++end;
    }
  } else if (std::isdigit(static_cast<unsigned char>(peek(1))) != 0 ||
             std::string_view("@*#?$!-").find(peek(1)) !=
                 std::string_view::npos) {
    ++end;
  }
  if (end == at + 1 || peek(1) == '\0') {
    add_text(word, base_ + at, '$', quoted);
    ++at;
    return;
  }
  word.parts.push_back({ShellPart::Kind::kParameter,
                        std::string(text_.substr(at + 1, end - at - 1)),
                        base_ + at,
                        quoted});
  at = end;
}

void ShellWordReader::read_arithmetic(ShellWord& word, bool quoted) {
  const size_t begin = at;
  const size_t end = find_shell_close(text_, at + 2, ')');
  if (end != std::string_view::npos && end > begin + 3 &&
      text_[end - 1] == ')') {
    word.parts.push_back({ShellPart::Kind::kArithmetic,
                          std::string(text_.substr(begin + 3, end - begin - 4)),
                          base_ + begin,
                          quoted});
    at = end + 1;
    return;
  }
  read_skipped(word, quoted, 2, ')', ShellPart::Kind::kCommand);
}

void ShellWordReader::read_skipped(ShellWord& word,
                                   bool quoted,
                                   size_t opening,
                                   char close,
                                   ShellPart::Kind kind) {
  const size_t begin = at;
  const size_t end = find_shell_close(text_, at + opening, close);
  if (end == std::string_view::npos) {
    error = "what opens here is never closed";
    return;
  }
  word.parts.push_back(
      {kind,
       std::string(text_.substr(begin + opening, end - begin - opening)),
       base_ + begin,
       quoted});
  at = end + 1;
}

void ShellWordReader::read_double_quotes(ShellWord& word) {
  const size_t begin = at;
  ++at;
  // An empty text keeps "" a word.
  word.parts.push_back({ShellPart::Kind::kText, "", base_ + at, true});
  while (!is_done() && peek() != '"' && error.empty()) {
    read_piece(word, true);
  }
  if (is_done() && error.empty()) {
    at = begin;
    error = "the quotes that open here are never closed";
    return;
  }
  ++at;
}

void ShellWordReader::read_single_quotes(ShellWord& word, size_t opening) {
  const size_t begin = at;
  const size_t end = text_.find('\'', at + opening);
  if (end == std::string_view::npos) {
    error = "the quotes that open here are never closed";
    return;
  }
  word.parts.push_back(
      {ShellPart::Kind::kText,
       std::string(text_.substr(begin + opening, end - begin - opening)),
       base_ + begin + opening,
       true});
  at = end + 1;
}

ShellWord parse_shell_word(std::string_view text, size_t offset) {
  return ShellWordReader(text, offset).read_all();
}

}  // namespace triax
