// SPDX-License-Identifier: Apache-2.0
#include "triax/foreign/system.h"

#include "triax/foreign/deepspeed.h"
#include "triax/foreign/megatron.h"
#include "triax/foreign/nanotron.h"
#include "triax/foreign/torchtitan.h"

namespace triax {

// One row for each reader: {System::kX, "x", "X 1.2", x_likeness, read_x,
// x_keys, x_facts}, declared in the reader's own header.
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
       read_torchtitan,
       torchtitan_keys,
       torchtitan_facts},
      {System::kNanotron,
       "nanotron",
       "nanotron",
       nanotron_likeness,
       read_nanotron,
       nanotron_keys,
       nanotron_facts},
      {System::kMegatron,
       "megatron",
       "Megatron-LM core_v0.19.2",
       megatron_likeness,
       read_megatron,
       megatron_keys,
       megatron_facts,
       read_megatron_words},
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
  std::optional<System> best;
  int most = 0;
  for (const SystemEntry& entry : foreign_systems()) {
    const int likeness = entry.likeness(file_name, text);
    if (likeness > most) {
      most = likeness;
      best = entry.system;
    }
  }
  if (!best && file_name.ends_with(".toml")) {
    return System::kTriax;
  }
  return best;
}

}  // namespace triax
