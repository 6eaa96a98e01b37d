// SPDX-License-Identifier: Apache-2.0
#include "triax/config/printable_json.h"

#include <fmt/format.h>

namespace triax {

std::string printable_json(const Json& value) {
  const std::string json = dump_json(value);
  std::string text;
  for (size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next =
        i + 1 < json.size() ? static_cast<unsigned char>(json[i + 1]) : 0;
    if (byte == 0x7f) {
      text += "\\u007f";
    } else if (byte == 0xc2 && next >= 0x80 && next <= 0x9f) {
      text += fmt::format("\\u00{:02x}", next);
      ++i;
    } else {
      text += json[i];
    }
  }
  return text;
}

}  // namespace triax
