// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace triax {

/// What this process may take of its machine.

/// The machine's memory, or the least limit of this process's cgroup and of
/// those above it, where one is less.
int64_t machine_memory_bytes();
/// Cores that this process may run on.
int num_cores();

/// Where the kernel tells of cgroups.
struct CgroupFiles {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// The least memory limit of the cgroup that `files` puts this process in and
/// of those above it (version 2, or version 1's memory controller); INT64_MAX
/// where there is none. A container shows its own cgroup as the root, however
/// the host calls it.
int64_t cgroup_memory_bytes(const CgroupFiles& files = {});

}  // namespace triax
