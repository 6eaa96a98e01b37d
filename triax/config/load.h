// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/config/problem.h"
#include "triax/config/run_config.h"

namespace triax {

/// A run file as far as it could be read.
struct LoadedConfig {
  RunConfig config;
  std::string file;
  /// Where each key was set, by the file or the command line.
  std::map<std::string, Position> positions;
  /// Keys that nobody set, and what their values come from.
  std::map<std::string, std::string> derived;
  /// Everything that is wrong, not just the first.
  std::vector<Problem> problems;
  /// Ranks that the launcher has or --ranks asks for, after resolve().
  std::optional<int> world_size;

  bool is_set(const std::string& key) const;
  /// Where the key was set, else the file as a whole.
  Position position_of(const std::string& key) const;
  /// Adds an error about a key at its place.
  void add_error(const std::string& rule,
                 const std::string& key,
                 const std::string& message,
                 const std::string& fix);
};

/// A run file of at most 1 MiB, then the overrides "section.key=value", the
/// last one winning. Throws nothing for what they hold: problems are listed.
/// Paths stay as they are, relative to the current folder.
LoadedConfig load_config(const std::string& file,
                         const std::vector<std::string>& overrides = {});

/// The same for a text that stands in `file`.
LoadedConfig parse_config(std::string_view text,
                          const std::string& file,
                          const std::vector<std::string>& overrides = {});

/// Fills what was left out (KV heads, head_dim, intermediate_size, norm_eps,
/// GPT-2's tied head, dp, global_batch_size) and says in `derived` what from.
/// `world_size`: ranks that the launcher has or --ranks asks for. Divides only
/// what divides; check_run() reports the rest. Idempotent.
void resolve(LoadedConfig& loaded, std::optional<int> world_size = {});

/// load_config() and resolve() of a file that the front has checked (triax-run
/// reads its run.toml by it). Throws Error with the first of the problems.
RunConfig load_run(const std::string& file);

}  // namespace triax
