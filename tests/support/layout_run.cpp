// SPDX-License-Identifier: Apache-2.0
#include "tests/support/layout_run.h"

#include <sstream>

#include "tests/support/run_ranks.h"
#include "triax/base/error.h"
#include "triax/check/check.h"
#include "triax/plan/parallel_dims.h"

namespace triax {
namespace {

constexpr const char* kRunFile = "tests/parity/walk.toml";

std::string from_root(const std::string& path) {
  std::string whole = TRIAX_SOURCE_DIR "/";
  whole += path;
  return whole;
}

std::string break_name(Break broken) {
  for (const BreakInfo& info : break_table()) {
    if (info.kind == broken) {
      return info.name;
    }
  }
  return "";
}

std::string in_shell_quotes(const std::string& text) {
  const bool is_plain = text.find_first_of("[]{}*?\"$ ") == std::string::npos;
  return is_plain ? text : "'" + text + "'";
}

}  // namespace

Overrides operator+(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Overrides plan_overrides(const std::string& plan) {
  Overrides overrides;
  std::istringstream words(plan);
  for (std::string word; std::getline(words, word, '_');) {
    const size_t digits = word.find_first_of("0123456789");
    const std::string axis = word.substr(0, digits);
    overrides.push_back("parallel." + (axis == "group" ? "zero_group" : axis) +
                        "=" + word.substr(digits));
  }
  return overrides;
}

LoadedConfig load_tiny_run(const Overrides& overrides) {
  LoadedConfig loaded = load_config(
      from_root(kRunFile),
      Overrides{"data.path=" + from_root("tests/parity/walk")} + overrides);
  resolve(loaded);
  return loaded;
}

RunConfig checked_tiny_run(const Overrides& overrides) {
  const LoadedConfig loaded = load_tiny_run(overrides);
  for (const Problem& problem : check_run(loaded)) {
    if (problem.severity == Severity::kError) {
      throw Error(to_text(problem));
    }
  }
  return loaded.config;
}

std::string verify_command(const Overrides& overrides,
                           const VerifyOptions& options) {
  std::string command = "build/bin/triax verify ";
  command += kRunFile;
  for (const std::string& text : overrides) {
    command += " " + in_shell_quotes(text);
  }
  command += " --steps " + std::to_string(options.num_steps);
  if (options.broken != Break::kNone) {
    command += " --break " + break_name(options.broken);
  }
  return command;
}

VerifyReport verify_layout(const RunConfig& config,
                           const VerifyOptions& options) {
  VerifyReport report;
  run_ranks_on_board(
      config.world_size(),
      [&](std::unique_ptr<Group> world, const std::shared_ptr<Board>& board) {
        DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
        VerifyReport mine = verify(config, mesh, board, options);
        if (mesh.rank() == 0) {
          report = std::move(mine);
        }
      });
  return report;
}

void train_layout(const RunConfig& config,
                  const std::function<void(Trainer&, DeviceMesh&)>& body,
                  const TrainerOptions& options) {
  run_ranks_on_board(
      config.world_size(),
      [&](std::unique_ptr<Group> world, const std::shared_ptr<Board>& board) {
        DeviceMesh mesh(make_parallel_dims(config.parallel), std::move(world));
        Recorder recorder(board, mesh.rank());
        TrainerOptions mine = options;
        if (!mine.on_failure) {
          mine.on_failure = [&](const std::exception& error) {
            board->fail(mesh.rank(), error.what());
          };
        }
        Trainer trainer(config, mesh, recorder, mine);
        body(trainer, mesh);
      });
}

}  // namespace triax
