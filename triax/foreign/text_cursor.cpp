// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/text_cursor.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace triax {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Bytes of the character that begins here; 0: none does.
size_t utf8_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    return 1;
  }
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) {
      return 0;
    }
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_overlong =
      (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool is_outside =
      (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return is_overlong || is_outside ? 0 : length;
}

}  // namespace

size_t find_bad_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& byte : result) {
    byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  }
  return result;
}

bool has_line(std::string_view text, std::string_view start) {
  for (size_t at = text.find(start); at != std::string_view::npos;
       at = text.find(start, at + 1)) {
    if (at == 0 || text[at - 1] == '\n') {
      return true;
    }
  }
  return false;
}

Position LineIndex::at(size_t offset) {
  offset = std::min(offset, text_.size());
  if (offset < offset_) {
    offset_ = 0;
    line_ = 1;
    column_ = 1;
  }
  for (; offset_ < offset; ++offset_) {
    const char byte = text_[offset_];
    if (byte == '\n') {
      ++line_;
      column_ = 1;
    } else if (!is_continuation(byte)) {
      ++column_;
    }
  }
  return {file_, line_, column_};
}

}  // namespace triax
