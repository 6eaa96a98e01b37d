// SPDX-License-Identifier: Apache-2.0
#include "triax/base/folder_space.h"

#include <linux/magic.h>
#include <sys/statfs.h>

namespace triax {

FolderSpace folder_space(const std::string& folder) {
  struct statfs system = {};
  if (::statfs(folder.c_str(), &system) != 0) {
    return {};
  }
  return {.is_known = true,
          .free_bytes = static_cast<int64_t>(system.f_bavail) * system.f_bsize,
          .is_memory =
              system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC};
}

}  // namespace triax
