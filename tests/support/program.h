// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "tests/support/scratch_folder.h"
#include "triax/base/file.h"

namespace triax {

/// What a call of the program gave.
struct Output {
  int code = -1;
  std::string out;
  std::string err;
};

/// The built program in a folder of its own.
class ProgramFolder {
 public:
  std::string file(const std::string& name) const { return folder_.file(name); }
  const std::filesystem::path& path() const { return folder_.path(); }

  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(file(name), text);
  }
  std::string read(const std::string& name) const {
    return read_file(file(name), 1 << 22);
  }
  /// `triax ARGUMENTS` by a shell, within the folder; `before` stands before
  /// the program: variables of its environment.
  Output run(const std::string& arguments,
             const std::string& before = "") const {
    const std::string command = "cd '" + folder_.path().string() + "' && " +
                                before + " '" TRIAX_BUILD_DIR "/bin/triax' " +
                                arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read("out"), read("err")};
  }

 private:
  ScratchFolder folder_;
};

}  // namespace triax
