// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace triax {

/// What a folder's file system has.
struct FolderSpace {
  bool is_known = false;   // false: there is no such folder
  int64_t free_bytes = 0;  // for files of this user
  bool is_memory = false;  // files there take the machine's memory (tmpfs)
};

FolderSpace folder_space(const std::string& folder);

}  // namespace triax
