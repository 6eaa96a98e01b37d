// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "triax/base/folder_space.h"
#include "triax/base/units.h"
#include "triax/check/findings.h"
#include "triax/config/problem.h"
#include "triax/plan/memory_model.h"
#include "triax/plan/offload.h"
#include "triax/plan/sharding.h"
#include "triax/plan/zero_stages.h"

namespace triax {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStates = "memory.offload_states";
constexpr const char* kDir = "memory.offload_dir";

/// The folder, or the one in which it will be made.
fs::path standing_folder(fs::path folder) {
  std::error_code error;
  while (!folder.empty() && !fs::exists(folder, error)) {
    folder = folder.parent_path();
  }
  return folder.empty() ? "." : folder;
}

/// Empty where files can be made in it.
std::string folder_trouble(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    return "there is no folder " + in_quotes(folder.string());
  }
  if (!fs::is_directory(folder, error)) {
    return in_quotes(folder.string()) + " is no folder";
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0
             ? ""
             : "no file may be made in " + in_quotes(folder.string());
}

struct RankFiles {
  SpilledBytes states;
  int64_t activations = 0;

  int64_t total() const { return states.total() + activations; }
};

struct AllFiles {
  int64_t nbytes = 0;  // of all ranks
  RankFiles largest;
};

AllFiles all_files(const RunConfig& config) {
  AllFiles files;
  const ParallelConfig& parallel = config.parallel;
  for (const StageMemory& stage : predict_memory(config)) {
    RankFiles rank = {
        .states = spilled_bytes_of_rank(
            config,
            parameter_layouts(config.model, stage.part, parallel.tp, 0))};
    if (stage.activation_offload) {
      rank.activations = stage.activation_offload->file_bytes();
    }
    files.nbytes += rank.total() * parallel.tp * parallel.dp;
    if (rank.total() > files.largest.total()) {
      files.largest = rank;
    }
  }
  return files;
}

std::string parts_text(const RankFiles& files) {
  std::string text;
  const auto add = [&](const char* name, int64_t nbytes) {
    if (nbytes > 0) {
      text += fmt::format(
          "{}{} {}", text.empty() ? "" : ", ", name, format_bytes(nbytes));
    }
  };
  add("optimizer", files.states.optimizer);
  add("gradients", files.states.gradients);
  add("parameters", files.states.parameters);
  add("activations", files.activations);
  return text;
}

}  // namespace

void check_offload_states(Findings& findings) {
  const RunConfig& config = findings.config;
  const OffloadedStates states = offloaded_states(config);
  const auto needs = [&](const std::string& what, const std::string& fix) {
    findings.error("offload-needs", kStates, what, fix);
  };
  if (states.gradients && config.parallel.zero < 2) {
    needs(fmt::format("gradients lie whole in memory with zero = {}, where "
                      "autograd adds to them",
                      config.parallel.zero),
          "use parallel.zero = 2, or leave \"gradients\" out");
  }
  if (states.parameters && !splits_parameters(config.parallel)) {
    needs(fmt::format("parameters lie whole in memory with zero = {} and {}, "
                      "where products read them",
                      config.parallel.zero,
                      counted(num_shards(config.parallel), "shard")),
          "use parallel.zero = 3 with dp above 1, or leave \"parameters\" out");
  }
  if ((states.gradients || states.parameters) && !states.optimizer) {
    needs(
        "gradients and parameters are on file only beside the optimizer's "
        "state, which is larger and used once a step",
        "add \"optimizer\"");
  }
}

void check_offload_folder(Findings& findings) {
  const RunConfig& config = findings.config;
  const OffloadedStates states = offloaded_states(config);
  if (!states.any_of_shard() && !states.activations) {
    return;
  }
  const bool is_set = !config.memory.offload_dir.empty();
  const fs::path folder = is_set ? fs::path(config.memory.offload_dir)
                                 : standing_folder(offload_folder(config));
  const std::string trouble = folder_trouble(folder);
  if (!trouble.empty()) {
    findings.error("offload-dir",
                   kDir,
                   trouble,
                   "give a folder on a disk in which files can be made");
    return;
  }
  const FolderSpace space = folder_space(folder.string());
  if (space.is_memory) {
    findings.warning("offload-in-memory",
                     kDir,
                     fmt::format("{} is in memory (tmpfs): what lies there is "
                                 "no longer the rank's and still the machine's",
                                 in_quotes(folder.string())),
                     "give a folder on a disk");
  }
  const AllFiles files = all_files(config);
  if (!space.may_hold(files.nbytes)) {
    findings.error(
        "offload-disk-full",
        kDir,
        fmt::format("{} go on file for {}, {} the largest ({}), and {} are "
                    "free in {}",
                    format_bytes(files.nbytes),
                    counted(config.world_size(), "rank"),
                    format_bytes(files.largest.total()),
                    parts_text(files.largest),
                    format_bytes(space.free_bytes),
                    in_quotes(folder.string())),
        "free some, give another folder, or offload fewer states");
  }
}

}  // namespace triax
