// SPDX-License-Identifier: Apache-2.0
#include "triax/config/docs.h"

#include <fmt/format.h>

#include <limits>

#include "triax/config/fields.h"
#include "triax/config/rules.h"

namespace triax {
namespace {

constexpr std::string_view kHead =
    "<!-- Made by `triax docs config` from triax/config/fields.cpp: change the "
    "table there. -->\n"
    "# The run file\n\n"
    "TOML, in sections. What is left out has the default below; `triax train "
    "FILE --print-config` shows every value\nthat a run would have. After the "
    "file, `section.key=value` overrides a key (a TOML value; a bare word is a "
    "text).\nPaths are relative to the current folder. Unknown keys are "
    "refused, and so are keys and values that are not built\nyet: nothing is "
    "dropped in silence. Names in `[model]` are Hugging Face's. A number of "
    "bytes without a unit is bytes,\na duration without one seconds; patterns "
    "fit the names of parameters that Hugging Face gives "
    "them\n(`model.layers.0.mlp.up_proj.weight`, `transformer.h.0.ln_1.bias`)."
    "\n";

std::string in_cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

std::string default_cell(const Field& field) {
  if (!field.is_read()) {
    return "";
  }
  const std::string text = default_text(field);
  return field.derived.empty() && text != "off" ? "`" + text + "`" : text;
}

std::string meaning(const Field& field) {
  std::string text(field.help);
  if (field.is_default_only) {
    text += "; other values are not built yet";
  }
  if (field.max_built < std::numeric_limits<int64_t>::max()) {
    text += fmt::format("; above {} not built yet", field.max_built);
  }
  if (!field.later.empty()) {
    text += fmt::format("; not built yet: {}", fmt::join(field.later, ", "));
  }
  return text;
}

}  // namespace

std::string config_page() {
  std::string page(kHead);
  std::string_view section;
  for (const Field& field : fields()) {
    if (field.section() != section) {
      section = field.section();
      page += fmt::format(
          "\n## [{}]\n\n| key | type | default | meaning "
          "|\n|---|---|---|---|\n",
          section);
    }
    page += fmt::format("| `{}` | {} | {} | {} |\n",
                        field.name(),
                        in_cell(type_text(field)),
                        in_cell(default_cell(field)),
                        in_cell(meaning(field)));
  }
  return page;
}

std::string keys_help() {
  std::string text =
      "Keys of a run file, and of overrides (section.key=value):\n";
  for (const Field& field : fields()) {
    if (!field.is_read()) {
      continue;
    }
    text += fmt::format("  {}\n      {} ({}; default {})\n",
                        field.key,
                        meaning(field),
                        type_text(field),
                        default_text(field));
  }
  return text;
}

std::string rules_page() {
  std::string page =
      "<!-- Made by `triax docs rules` from triax/config/rules.cpp. -->\n"
      "# Rules\n\nWhat `triax check` looks at. A message names its rule in "
      "square brackets.\n\n| rule | it says |\n|---|---|\n";
  for (const Rule& rule : rules()) {
    page += fmt::format("| [{0}]({0}.md) | {1} |\n",
                        rule.id,
                        in_cell(std::string(rule.meaning)));
  }
  return page;
}

}  // namespace triax
