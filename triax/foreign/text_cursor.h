// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "triax/config/value.h"

namespace triax {

/// Where the first byte stands that is not UTF-8 (as Python's decoder sees
/// it), npos: all of it is.
size_t find_bad_utf8(std::string_view text);

/// With ASCII's letters in lower case.
std::string lower(std::string_view text);

/// Whether some line of the text begins with `start`.
bool has_line(std::string_view text, std::string_view start);

/// Turns offsets of a text into lines and columns (of characters, from 1).
/// Offsets asked for in rising order cost one pass over the text in all.
class LineIndex {
 public:
  LineIndex(std::string_view text, std::string file)
      : text_(text), file_(std::move(file)) {}

  Position at(size_t offset);

 private:
  std::string_view text_;
  std::string file_;
  size_t offset_ = 0;
  int line_ = 1;
  int column_ = 1;
};

}  // namespace triax
