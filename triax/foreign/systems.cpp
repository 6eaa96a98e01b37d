// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/system.h"

#include <algorithm>
#include <cctype>

#include "triax/base/byte_order_mark.h"
#include "triax/base/trimmed.h"
#include "triax/config/fields.h"
#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/torchtitan.h"

namespace triax {

namespace {

// A byte order mark is none of a config's text.
template <ForeignConfig (*Read)(std::string_view, const std::string&)>
ForeignConfig without_mark(std::string_view text, const std::string& file) {
  text.remove_prefix(text.starts_with(kByteOrderMark) ? kByteOrderMark.size()
                                                      : 0);
  return Read(text, file);
}

// How many of a TOML's sections and keys a system knows, line by line, so
// that a broken file is told too. Keys weigh more than sections, which many
// programs have.
struct TomlLikeness {
  int triax = 0;
  int torchtitan = 0;
};

bool is_triax_section(std::string_view path) {
  return std::ranges::any_of(fields(), [path](const Field& field) {
    return field.is_read() && field.section() == path;
  });
}

// Of a line.
constexpr std::string_view kBlanks = " \t\r";

TomlLikeness likeness_of_toml(std::string_view text) {
  constexpr int kKey = 3;
  TomlLikeness likeness;
  std::string section;
  for (int num_lines = 0; !text.empty() && num_lines < 2000; ++num_lines) {
    const size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end), kBlanks);
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (line.starts_with('[')) {
      const size_t first = line.find_first_not_of("[ \t");
      const size_t last = line.find(']');
      section =
          first >= last || last == std::string_view::npos
              ? std::string()
              : std::string(trimmed(line.substr(first, last - first), kBlanks));
      likeness.triax += is_triax_section(section) ? 1 : 0;
      likeness.torchtitan += torchtitan_keys().find(section) ? 1 : 0;
      continue;
    }
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) {
      continue;
    }
    const std::string key(trimmed(line.substr(0, equals), kBlanks));
    const std::string path = section.empty() ? key : section + "." + key;
    const Field* field = find_field(path);
    likeness.triax += field != nullptr && field->is_read() ? kKey : 0;
    likeness.torchtitan += torchtitan_keys().find(path) ? kKey : 0;
  }
  return likeness;
}

std::optional<System> detect_toml(std::string_view text) {
  const TomlLikeness likeness = likeness_of_toml(text);
  if (likeness.triax == likeness.torchtitan) {
    return std::nullopt;
  }
  return likeness.triax > likeness.torchtitan ? System::kTriax
                                              : System::kTorchTitan;
}

}  // namespace

// One row for each reader: {System::kX, "x", "X 1.2", x_likeness, read_x,
// x_keys, x_facts, words or nullptr, versions}, declared in the reader's own
// header.
const std::vector<SystemEntry>& foreign_systems() {
  static const std::vector<SystemEntry> table = {
      {System::kDeepSpeed,
       "deepspeed",
       "DeepSpeed 0.19.8",
       deepspeed_likeness,
       read_deepspeed,
       deepspeed_keys,
       deepspeed_facts},
      {System::kTorchTitan,
       "torchtitan",
       "TorchTitan 0.2.2",
       torchtitan_likeness,
       without_mark<read_torchtitan>,
       torchtitan_keys,
       torchtitan_facts,
       nullptr,
       "0.2.2",
       [](std::string_view version) { return version == "0.2.2"; }},
      {System::kNanotron,
       "nanotron",
       "nanotron",
       nanotron_likeness,
       without_mark<read_nanotron>,
       nanotron_keys,
       nanotron_facts,
       nullptr,
       "0.4 (the package) and main (the repository)",
       [](std::string_view version) {
         return version == "0.4" || version == "main";
       }},
      {System::kMegatron,
       "megatron",
       "Megatron-LM core_v0.19.2",
       megatron_likeness,
       without_mark<read_megatron>,
       megatron_keys,
       megatron_facts,
       read_megatron_words,
       "0.19.2",
       [](std::string_view version) {
         return version == "0.19.2" || version == "core_v0.19.2";
       }},
  };
  return table;
}

const SystemEntry* find_system(System system) {
  for (const SystemEntry& entry : foreign_systems()) {
    if (entry.system == system) {
      return &entry;
    }
  }
  return nullptr;
}

std::string_view system_name(System system) {
  switch (system) {
    case System::kTriax:
      return "triax";
    case System::kDeepSpeed:
      return "deepspeed";
    case System::kMegatron:
      return "megatron";
    case System::kTorchTitan:
      return "torchtitan";
    case System::kNanotron:
      return "nanotron";
  }
  return "?";
}

std::optional<System> parse_system(std::string_view name) {
  for (const System system : {System::kTriax,
                              System::kDeepSpeed,
                              System::kMegatron,
                              System::kTorchTitan,
                              System::kNanotron}) {
    if (system_name(system) == name) {
      return system;
    }
  }
  return std::nullopt;
}

std::optional<System> detect_system(std::string_view file_name,
                                    std::string_view text) {
  if (file_name.ends_with(".toml")) {
    return detect_toml(text);
  }
  std::optional<System> best;
  int most = 0;
  for (const SystemEntry& entry : foreign_systems()) {
    const int likeness = entry.likeness(file_name, text);
    if (likeness > most) {
      most = likeness;
      best = entry.system;
    }
  }
  return best;
}

}  // namespace triax
