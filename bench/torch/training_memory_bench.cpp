// SPDX-License-Identifier: Apache-2.0
// By how much each rank of a run grows: `triax train`'s own ranks, forked and
// trained as libexec/triax-run does it, with a look at /proc/self/status just
// before the model is made and one after the last step.
//   training_memory_bench [--digest] RUN_FILE [section.key=value...]
// Prints one JSON line a rank, in bytes: "start" (VmRSS before), "peak"
// (VmHWM), "grown" (their difference), "shared" (RssShmem at the end: pages of
// segments between ranks, which VmRSS and VmHWM count in every rank that has
// touched them), "counted" (the allocator's own peak); "read" and "written",
// by disks, the least of a step after the first, by /proc/self/io. With
// --digest "weights": of every bit of the trained weights, masters too; they
// are made whole for it, after all else was noted. run.dir is made where it is
// missing, and gets metrics.jsonl.
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
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
#include "triax/train/trainer.h"

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

struct DiskBytes {
  int64_t read = 0;
  int64_t written = 0;
};

DiskBytes disk_bytes() {
  DiskBytes bytes;
  std::ifstream file("/proc/self/io");
  std::string key;
  for (int64_t value = 0; file >> key >> value;) {
    if (key == "read_bytes:") {
      bytes.read = value;
    } else if (key == "write_bytes:") {
      bytes.written = value;
    }
  }
  return bytes;
}

/// FNV-1a, 64 bits.
class Digest {
 public:
  void add(const at::Tensor& tensor) {
    const at::Tensor whole = tensor.detach().contiguous();
    const auto* bytes = static_cast<const uint8_t*>(whole.const_data_ptr());
    for (size_t i = 0; i < whole.nbytes(); ++i) {
      value_ = (value_ ^ bytes[i]) * 0x100000001b3;
    }
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::string weights_digest(const RunConfig& config, Trainer& trainer) {
  this_rank_memory().set_limit(0);
  Digest digest;
  trainer.with_whole_weights([&] {
    for (const ParameterSlot* slot : trainer.rank_model().slots) {
      digest.add(slot->tensor);
    }
    if (has_master_weights(config.training.precision)) {
      for (const auto& [name, master] : trainer.trained().gather_masters()) {
        digest.add(master);
      }
    }
  });
  return digest.text();
}

/// Looks at one rank from step to step.
class Watch {
 public:
  Watch(const RunConfig& config, int rank, bool has_digest)
      : config_(config),
        rank_(rank),
        has_digest_(has_digest),
        start_(process_memory().resident) {}

  void after_step(Trainer& trainer) {
    const DiskBytes now = disk_bytes();
    if (trainer.steps_done() > 1) {
      least_.read = std::min(least_.read, now.read - before_.read);
      least_.written = std::min(least_.written, now.written - before_.written);
    }
    before_ = now;
    if (trainer.steps_done() == config_.training.steps) {
      note(trainer);
    }
  }

  const Json& line() const { return line_; }

 private:
  void note(Trainer& trainer) {
    const ProcessMemory memory = process_memory();
    line_ = {{"rank", rank_},
             {"start", start_},
             {"peak", memory.peak},
             {"grown", memory.peak - start_},
             {"shared", memory.shared},
             {"counted", this_rank_memory().use().peak.total()}};
    if (trainer.steps_done() > 1) {
      line_["read"] = least_.read;
      line_["written"] = least_.written;
    }
    if (has_digest_) {
      line_["weights"] = weights_digest(config_, trainer);
    }
  }

  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  const RunConfig& config_;
  const int rank_;
  const bool has_digest_;
  const int64_t start_;
  DiskBytes before_;
  DiskBytes least_{kMost, kMost};
  Json line_;
};

int train_rank(const RunConfig& config,
               bool has_digest,
               const std::shared_ptr<Board>& board,
               std::unique_ptr<Group> world) {
  Watch watch(config, world->rank(), has_digest);
  const int code = run_training(
      config,
      board,
      std::move(world),
      {.run_dir = config.run.dir,
       .is_quiet = true,
       .on_step = [&](Trainer& trainer) { watch.after_step(trainer); }});
  std::printf("%s\n", dump_json(watch.line()).c_str());
  return code;
}

int run(const std::string& file,
        const std::vector<std::string>& overrides,
        bool has_digest) {
  const RunConfig config = load_checked_run(file, overrides);
  std::filesystem::create_directories(config.run.dir);
  const int world_size = config.world_size();
  const auto board = Board::create(world_size);
  const auto world = make_local_world(
      world_size,
      {.deadline_seconds = config.comm.deadline_seconds, .board = board});
  return fork_ranks({.board = board}, [&](int rank) {
    return train_rank(config, has_digest, board, world->join(rank));
  });
}

}  // namespace

int main(int argc, char** argv) {
  install_tracking_allocator();
  CLI::App app("By how much each rank of a run grows");
  std::string file;
  std::vector<std::string> overrides;
  bool has_digest = false;
  app.add_flag("--digest", has_digest);
  app.add_option("file", file)->required();
  app.add_option("overrides", overrides);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(file, overrides, has_digest);
  } catch (const Error& error) {
    log_error(error.what());
    return 2;
  }
}
