// SPDX-License-Identifier: Apache-2.0
#include "triax/config/print_config.h"

#include <fmt/format.h>

#include "triax/config/fields.h"

namespace triax {

std::string print_config(const RunConfig& config) {
  std::string text;
  std::string_view section;
  for (const Field& field : fields()) {
    const std::string value = field.is_read() ? print_value(field, config) : "";
    if (value.empty()) {
      continue;
    }
    if (field.section() != section) {
      section = field.section();
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", field.name(), value);
  }
  return text;
}

}  // namespace triax
