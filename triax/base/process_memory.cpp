// SPDX-License-Identifier: Apache-2.0
#include "triax/base/process_memory.h"

#include <array>
#include <fstream>
#include <string>

namespace triax {
namespace {

struct Key {
  const char* name;
  int64_t ProcessMemory::*member;
};

constexpr std::array kKeys = {Key{"VmHWM:", &ProcessMemory::peak},
                              Key{"VmRSS:", &ProcessMemory::resident},
                              Key{"RssAnon:", &ProcessMemory::anonymous},
                              Key{"RssFile:", &ProcessMemory::files},
                              Key{"RssShmem:", &ProcessMemory::shared}};

}  // namespace

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    for (const Key& key : kKeys) {
      const std::string name = key.name;
      if (line.starts_with(name)) {
        memory.*key.member = std::stoll(line.substr(name.size())) * 1024;
      }
    }
  }
  return memory;
}

}  // namespace triax
