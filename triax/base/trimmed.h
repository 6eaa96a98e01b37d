// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace triax {

/// The text without the bytes of `blanks` at its begin and its end.
inline std::string_view trimmed(std::string_view text,
                                std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

}  // namespace triax
