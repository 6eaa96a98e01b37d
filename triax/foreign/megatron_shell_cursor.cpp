// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/megatron_shell_cursor.h"

#include <algorithm>
#include <cctype>

namespace triax {

bool ShellCursor::at_end() {
  skip_blanks();
  return reader_.is_done();
}

void ShellCursor::fail(const std::string& why) {
  if (error_.empty()) {
    error_ = why;
    error_offset_ = std::min(reader_.at, text_.size());
  }
}

void ShellCursor::skip_stray() {
  if (ends_shell_word(reader_.peek())) {
    ++reader_.at;
  } else {
    read_word();
  }
}

void ShellCursor::skip_blanks() {
  while (!reader_.is_done()) {
    const char c = reader_.peek();
    if (is_shell_blank(c)) {
      ++reader_.at;
    } else if (c == '\\' && reader_.peek(1) == '\n') {
      reader_.at += 2;
    } else if (c == '\\' && reader_.peek(1) == '\r' &&
               reader_.peek(2) == '\n') {
      reader_.at += 3;
    } else if (c == '#') {
      const size_t end = text_.find('\n', reader_.at);
      reader_.at = std::min(end, text_.size());
    } else {
      return;
    }
  }
}

void ShellCursor::skip_newlines() {
  while (true) {
    skip_blanks();
    if (reader_.peek() != '\n') {
      return;
    }
    take_newline();
  }
}

void ShellCursor::take_newline() {
  ++reader_.at;
  for (const std::string& delimiter : here_documents_) {
    skip_here_document(delimiter);
  }
  here_documents_.clear();
}

void ShellCursor::skip_here_document(const std::string& delimiter) {
  while (reader_.at < text_.size()) {
    const size_t end = std::min(text_.find('\n', reader_.at), text_.size());
    std::string_view line = text_.substr(reader_.at, end - reader_.at);
    reader_.at = std::min(end + 1, text_.size());
    while (!line.empty() && line.front() == '\t') {
      line.remove_prefix(1);
    }
    while (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    if (line == delimiter) {
      return;
    }
  }
}

ShellWord ShellCursor::read_word() {
  ShellWord word = reader_.read_word();
  if (!reader_.error.empty()) {
    fail(reader_.error);
  }
  return word;
}

std::string_view ShellCursor::next_bare_word() {
  skip_blanks();
  size_t end = reader_.at;
  while (end < text_.size() && !ends_shell_word(text_[end])) {
    ++end;
  }
  return text_.substr(reader_.at, end - reader_.at);
}

bool ShellCursor::next_is(std::initializer_list<std::string_view> words) {
  const std::string_view next = next_bare_word();
  return std::find(words.begin(), words.end(), next) != words.end();
}

bool ShellCursor::take(std::string_view word) {
  if (next_bare_word() != word) {
    return false;
  }
  reader_.at += word.size();
  return true;
}

void ShellCursor::skip_redirections() {
  skip_blanks();
  while (error_.empty() && skip_redirection()) {
    skip_blanks();
  }
}

bool ShellCursor::skip_redirection() {
  size_t at = reader_.at;
  while (at < text_.size() &&
         std::isdigit(static_cast<unsigned char>(text_[at])) != 0) {
    ++at;
  }
  if (at < text_.size() && text_[at] == '&' && at + 1 < text_.size() &&
      text_[at + 1] == '>') {
    ++at;
  }
  if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) {
    return false;
  }
  const char kind = text_[at];
  size_t arrows = 0;
  while (at < text_.size() && text_[at] == kind) {
    ++at;
    ++arrows;
  }
  reader_.at = at;
  if (kind == '<' && arrows == 2) {
    take_here_document();
    return true;
  }
  if (reader_.peek() == '(') {
    const size_t end = find_shell_close(text_, at + 1, ')');
    reader_.at = end == std::string_view::npos ? text_.size() : end + 1;
    return true;
  }
  if (reader_.peek() == '&' || reader_.peek() == '|') {
    ++reader_.at;
  }
  skip_blanks();
  if (!reader_.is_done() && !ends_shell_word(reader_.peek())) {
    read_word();
  }
  return true;
}

void ShellCursor::take_here_document() {
  if (reader_.peek() == '-') {
    ++reader_.at;
  }
  skip_blanks();
  std::string delimiter;
  for (const ShellPart& part : read_word().parts) {
    delimiter += part.text;
  }
  here_documents_.push_back(delimiter);
}

}  // namespace triax
