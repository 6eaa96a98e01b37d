// SPDX-License-Identifier: Apache-2.0
#include "triax/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

namespace triax {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// The number in a file; none for "max" or a file that is not there.
int64_t limit_in(const fs::path& path) {
  std::ifstream file(path);
  int64_t nbytes = 0;
  return file >> nbytes && nbytes > 0 ? nbytes : kNoLimit;
}

/// The least limit from `path` under `root` up to the root.
int64_t least_limit(const fs::path& root,
                    const std::string& path,
                    const char* file) {
  int64_t least = limit_in(root / file);
  fs::path folder = root;
  for (const fs::path& part : fs::path(path).relative_path()) {
    folder /= part;
    least = std::min(least, limit_in(folder / file));
  }
  return least;
}

}  // namespace

int64_t cgroup_memory_bytes(const CgroupFiles& files) {
  int64_t least = kNoLimit;
  // Lines "hierarchy:controllers:path"; version 2 has hierarchy 0 and no
  // controllers.
  std::ifstream membership(files.membership);
  std::string line;
  while (std::getline(membership, line)) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_limit(files.root, path, "memory.max"));
    } else if (("," + controllers + ",").find(",memory,") !=
               std::string::npos) {
      least = std::min(
          least,
          least_limit(
              fs::path(files.root) / "memory", path, "memory.limit_in_bytes"));
    }
  }
  return least;
}

int64_t machine_memory_bytes() {
  const int64_t pages = std::max<int64_t>(0, sysconf(_SC_PHYS_PAGES));
  return std::min(pages * sysconf(_SC_PAGESIZE), cgroup_memory_bytes());
}

int num_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace triax
