// SPDX-License-Identifier: Apache-2.0
// The forms that configs are written in: JSON, arguments, TOML, YAML.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "triax/foreign/translate_writers.h"

namespace triax {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A number that YAML 1.1 takes for one has a point in its mantissa, and so
// TOML's and JSON's too.
std::string literal(const Json& value) {
  std::string text = dump_json(value);
  const size_t exponent = text.find('e');
  if (value.is_number_float() && exponent != std::string::npos &&
      text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

std::string_view name_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string json_of(const std::vector<WrittenKey>& keys) {
  OrderedJson root = OrderedJson::object();
  for (const WrittenKey& key : keys) {
    OrderedJson* place = &root;
    std::string_view rest = key.key;
    while (true) {
      const size_t dot = rest.find('.');
      place = &(*place)[std::string(rest.substr(0, dot))];
      if (dot == std::string_view::npos) {
        break;
      }
      rest.remove_prefix(dot + 1);
    }
    *place = OrderedJson::parse(dump_json(key.value));
  }
  return root.dump(2) + "\n";
}

std::string remark(const WrittenKey& key) {
  return key.is_stand_in ? "  # stands in: not said, fill in" : "";
}

std::string toml_of(const std::vector<WrittenKey>& keys) {
  std::vector<std::string_view> sections;
  for (const WrittenKey& key : keys) {
    const std::string_view section = section_of(key.key);
    if (std::ranges::find(sections, section) == sections.end()) {
      sections.push_back(section);
    }
  }
  std::string text;
  for (const std::string_view section : sections) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    for (const WrittenKey& key : keys) {
      if (section_of(key.key) == section) {
        text += fmt::format(
            "{} = {}{}\n", name_of(key.key), literal(key.value), remark(key));
      }
    }
  }
  return text;
}

// Keys in the order of their first appearance, each section once. A value
// that is a list or a table is written as JSON, which YAML is too.
void write_yaml(const std::vector<const WrittenKey*>& keys,
                size_t depth,
                std::string& text) {
  std::vector<std::string> names;
  const auto part = [depth](const WrittenKey& key) {
    std::string_view rest = key.key;
    for (size_t i = 0; i < depth; ++i) {
      rest.remove_prefix(rest.find('.') + 1);
    }
    return rest;
  };
  for (const WrittenKey* key : keys) {
    const std::string name(part(*key).substr(0, part(*key).find('.')));
    if (std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    std::vector<const WrittenKey*> below;
    for (const WrittenKey* key : keys) {
      if (part(*key) == name) {
        text += fmt::format("{}{}: {}{}\n",
                            std::string(2 * depth, ' '),
                            name,
                            literal(key->value),
                            remark(*key));
      } else if (part(*key).starts_with(name + ".")) {
        below.push_back(key);
      }
    }
    if (!below.empty()) {
      text += fmt::format("{}{}:\n", std::string(2 * depth, ' '), name);
      write_yaml(below, depth + 1, text);
    }
  }
}

std::string yaml_of(const std::vector<WrittenKey>& keys) {
  std::vector<const WrittenKey*> all;
  for (const WrittenKey& key : keys) {
    all.push_back(&key);
  }
  std::string text;
  write_yaml(all, 0, text);
  return text;
}

// A word as a shell reads it.
std::string shell_word(const std::string& text) {
  const bool is_plain =
      !text.empty() && std::ranges::all_of(text, [](unsigned char byte) {
        return std::isalnum(byte) ||
               std::string_view("-._/:,+=@%").find(static_cast<char>(byte)) !=
                   std::string_view::npos;
      });
  if (is_plain) {
    return text;
  }
  std::string quoted = "'";
  for (const char byte : text) {
    quoted += byte == '\'' ? std::string("'\\''") : std::string(1, byte);
  }
  return quoted + "'";
}

std::string flags_of(const std::vector<WrittenKey>& keys) {
  std::string text;
  for (const WrittenKey& key : keys) {
    if (key.value == Json(true)) {
      text += fmt::format("--{}\n", key.key);
    } else {
      text += fmt::format("--{} {}\n",
                          key.key,
                          key.value.is_string()
                              ? shell_word(key.value.get<std::string>())
                              : literal(key.value));
    }
  }
  return text;
}

}  // namespace

std::string text_of_target(System to, const std::vector<WrittenKey>& keys) {
  switch (to) {
    case System::kDeepSpeed:
      return json_of(keys);
    case System::kMegatron:
      return flags_of(keys);
    case System::kNanotron:
      return yaml_of(keys);
    case System::kTriax:
    case System::kTorchTitan:
      return toml_of(keys);
  }
  return "";
}

}  // namespace triax
