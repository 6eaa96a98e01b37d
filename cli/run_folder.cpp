// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "triax/base/error.h"
#include "triax/base/file.h"
#include "triax/base/log.h"
#include "triax/config/print_config.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

// False: it exists. mkdir decides, so two runs never share a folder.
bool make_new_folder(const std::string& path) {
  std::error_code error;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) {
    fs::create_directories(parent, error);
  }
  if (error) {
    throw Error("cannot make the folder ",
                parent.string(),
                " for the run: ",
                error.message(),
                "; use another run.dir");
  }
  if (::mkdir(path.c_str(), 0777) == 0) {
    return true;
  }
  if (errno != EEXIST) {
    throw Error("cannot make the run's folder ",
                path,
                ": ",
                std::strerror(errno),
                "; use another run.dir");
  }
  return false;
}

std::string make_folder(const std::string& dir, const std::string& name) {
  if (!dir.empty()) {
    if (!make_new_folder(dir)) {
      throw Error("run.dir ",
                  dir,
                  " exists, and a run never overwrites one; use another, or "
                  "leave run.dir out");
    }
    return dir;
  }
  std::string path = "runs/" + name;
  for (int number = 2; !make_new_folder(path); ++number) {
    path = fmt::format("runs/{}-{}", name, number);
  }
  return path;
}

// Never with an option's look.
std::string plain_path(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

std::string one_line(const std::string& text) {
  std::string line = escape_controls(text);
  for (char& byte : line) {
    byte = byte == '\n' || byte == '\t' ? ' ' : byte;
  }
  return line;
}

}  // namespace

void make_run_folder(RunConfig& config, const RunFolderOptions& options) {
  const std::string name =
      fs::path(options.file).stem().string() + options.suffix;
  config.run.dir = make_folder(plain_path(config.run.dir), name);
  try {
    write_file_atomically(
        config.run.dir + "/run.toml",
        fmt::format(
            "# {}\n{}", one_line(options.command_line), print_config(config)));
  } catch (const Error&) {
    ::rmdir(config.run.dir.c_str());
    throw;
  }
}

}  // namespace triax
