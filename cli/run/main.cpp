// SPDX-License-Identifier: Apache-2.0
// libexec/triax-run: what loads LibTorch and forks the ranks. The front,
// bin/triax, starts it and watches; people do not call it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <functional>

#include "triax/base/error.h"
#include "triax/base/log.h"
#include "triax/base/standard_streams.h"
#include "triax/check/breaks.h"
#include "triax/comm/fork_ranks.h"
#include "triax/comm/launch_link.h"
#include "triax/comm/local.h"
#include "triax/config/load.h"
#include "triax/memory/saved_tensor_hooks.h"
#include "triax/memory/tracking_allocator.h"
#include "triax/plan/offload.h"
#include "triax/train/session.h"

namespace triax {
namespace {

struct Arguments {
  std::string verb;
  std::string run_file;
  bool is_quiet = false;
  bool is_verbose = false;
  VerifySessionOptions verify;
};

using RankBody = std::function<int(const RunConfig& config,
                                   const std::shared_ptr<Board>& board,
                                   std::unique_ptr<Group> world)>;

RankBody body_of(const Arguments& arguments) {
  if (arguments.verb == "verify") {
    return [arguments](const RunConfig& config,
                       const std::shared_ptr<Board>& board,
                       std::unique_ptr<Group> world) {
      return run_verify(config, board, std::move(world), arguments.verify);
    };
  }
  const SessionOptions options{
      .run_dir = std::filesystem::path(arguments.run_file).parent_path(),
      .is_quiet = arguments.is_quiet};
  return [options](const RunConfig& config,
                   const std::shared_ptr<Board>& board,
                   std::unique_ptr<Group> world) {
    return run_training(config, board, std::move(world), options);
  };
}

/// A run's files lie in its folder unless the config names another.
RunConfig load_in_folder(const std::string& run_file) {
  RunConfig config = load_run(run_file);
  if (config.memory.offload_dir.empty()) {
    config.memory.offload_dir = std::filesystem::path(run_file).parent_path();
  }
  return config;
}

int run(const Arguments& arguments) {
  const LaunchLink link = take_launch_link();
  const RunConfig config = load_in_folder(arguments.run_file);
  if (offloaded_states(config).activations) {
    install_saved_tensor_hooks();
  }
  if (!arguments.verify.break_name.empty()) {
    parse_break(arguments.verify.break_name, config);
  }
  const int world_size = config.world_size();
  const std::shared_ptr<Board> board = link.board_fd >= 0
                                           ? Board::attach(link.board_fd)
                                           : Board::create(world_size);
  const auto world = make_local_world(
      world_size,
      {.deadline_seconds = config.comm.deadline_seconds, .board = board});
  const RankBody body = body_of(arguments);
  return fork_ranks(
      {.board = board,
       .log_dir = link.log_dir,
       .log_level = arguments.is_verbose ? LogLevel::kDebug : LogLevel::kInfo,
       .exit_fd = link.exit_fd},
      [&](int rank) { return body(config, board, world->join(rank)); });
}

Arguments parse(int argc, char** argv, CLI::App& app) {
  Arguments arguments;
  app.add_option("verb", arguments.verb, "what the ranks do")
      ->required()
      ->check(CLI::IsMember({"train", "verify"}));
  app.add_option("run_file", arguments.run_file, "a resolved config (run.toml)")
      ->required();
  app.add_flag("--quiet", arguments.is_quiet);
  app.add_flag("--verbose", arguments.is_verbose);
  app.add_flag("--json", arguments.verify.is_json);
  app.add_option("--break", arguments.verify.break_name);
  app.add_option("--steps", arguments.verify.num_steps);
  app.parse(argc, argv);
  return arguments;
}

}  // namespace
}  // namespace triax

int main(int argc, char** argv) {
  triax::open_standard_streams();
  triax::let_large_writes_fail();
  triax::install_tracking_allocator();
  CLI::App app(
      "Loads LibTorch and forks the ranks of a run. triax starts it; people "
      "call `triax train` and `triax verify`.",
      "triax-run");
  if (argc < 2) {
    triax::log_error(
        "triax-run is started by triax, with a run file that it has checked; "
        "call `triax train FILE` or `triax verify FILE`");
    return 2;
  }
  try {
    return triax::run(triax::parse(argc, argv, app));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const triax::Error& error) {
    triax::log_error(error.what());
    return 2;
  }
}
