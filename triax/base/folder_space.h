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

  /// Whether such a file may fit; true where nothing is known.
  bool may_hold(int64_t nbytes) const {
    return !is_known || nbytes <= free_bytes;
  }
};

FolderSpace folder_space(const std::string& folder);

}  // namespace triax
