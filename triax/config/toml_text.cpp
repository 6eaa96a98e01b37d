// SPDX-License-Identifier: Apache-2.0
#include "triax/config/toml_text.h"

#include <fmt/format.h>

namespace triax {

std::string toml_text(bool value) {
  return value ? "true" : "false";
}

std::string toml_text(int64_t value) {
  return fmt::format("{}", value);
}

std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) {
    text += ".0";
  }
  return text;
}

std::string toml_text(std::string_view value) {
  std::string text = "\"";
  for (const char byte : value) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '"' || byte == '\\') {
      text += '\\';
      text += byte;
    } else if (code < 0x20 || code == 0x7f) {
      text += fmt::format("\\u{:04X}", code);
    } else {
      text += byte;
    }
  }
  return text + '"';
}

}  // namespace triax
