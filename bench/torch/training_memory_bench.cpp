// SPDX-License-Identifier: Apache-2.0
// By how much each rank of a run grows: `triax train`'s own ranks, forked and
// trained as libexec/triax-run does it, with a look at /proc/self/status just
// before the model is made and one after the last step.
//   training_memory_bench RUN_FILE [section.key=value...]
// Prints one JSON line a rank, in bytes: "start" (VmRSS before), "peak"
// (VmHWM), "grown" (their difference), "shared" (RssShmem at the end: pages of
// segments between ranks, which VmRSS and VmHWM count in every rank that has
// touched them), "counted" (the allocator's own peak). run.dir is made where
// it is missing, and gets metrics.jsonl.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "triax/base/error.h"
#include "triax/base/json.h"
#include "triax/base/log.h"
#include "triax/base/process_memory.h"
#include "triax/check/check.h"
#include "triax/comm/fork_ranks.h"
#include "triax/comm/local.h"
#include "triax/config/load.h"
#include "triax/memory/tracker.h"
#include "triax/memory/tracking_allocator.h"
#include "triax/train/session.h"

namespace {

using namespace triax;

RunConfig load_checked_run(const std::string& file,
                           const std::vector<std::string>& overrides) {
  LoadedConfig loaded = load_config(file, overrides);
  resolve(loaded);
  for (const Problem& problem : check_run(loaded)) {
    if (problem.severity == Severity::kError) {
      throw Error(to_text(problem));
    }
  }
  return loaded.config;
}

int train_rank(const RunConfig& config,
               const std::shared_ptr<Board>& board,
               std::unique_ptr<Group> world) {
  const int rank = world->rank();
  const int64_t start = process_memory().resident;
  const int code = run_training(config,
                                board,
                                std::move(world),
                                {.run_dir = config.run.dir, .is_quiet = true});
  const ProcessMemory memory = process_memory();
  const Json line = {{"rank", rank},
                     {"start", start},
                     {"peak", memory.peak},
                     {"grown", memory.peak - start},
                     {"shared", memory.shared},
                     {"counted", this_rank_memory().use().peak.total()}};
  std::printf("%s\n", dump_json(line).c_str());
  return code;
}

int run(const std::string& file, const std::vector<std::string>& overrides) {
  const RunConfig config = load_checked_run(file, overrides);
  std::filesystem::create_directories(config.run.dir);
  const int world_size = config.world_size();
  const auto board = Board::create(world_size);
  const auto world = make_local_world(
      world_size,
      {.deadline_seconds = config.comm.deadline_seconds, .board = board});
  return fork_ranks({.board = board}, [&](int rank) {
    return train_rank(config, board, world->join(rank));
  });
}

}  // namespace

int main(int argc, char** argv) {
  install_tracking_allocator();
  CLI::App app("By how much each rank of a run grows");
  std::string file;
  std::vector<std::string> overrides;
  app.add_option("file", file)->required();
  app.add_option("overrides", overrides);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(file, overrides);
  } catch (const Error& error) {
    log_error(error.what());
    return 2;
  }
}
