// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "triax/foreign/foreign_config.h"
#include "triax/foreign/key_table.h"
#include "triax/foreign/run_facts.h"

namespace triax {

// TorchTitan's TOML, whose last version is 0.2.2: later ones are configured in
// Python. Named as SystemEntry names them.

int torchtitan_likeness(std::string_view file_name, std::string_view text);
ForeignConfig read_torchtitan(std::string_view text, const std::string& file);
const KeyTable& torchtitan_keys();
RunFacts torchtitan_facts(const ForeignConfig& config);

/// A model that TorchTitan ships, by model.name and model.flavor.
struct TorchTitanModel {
  std::string_view name;
  std::string_view flavor;
  std::string_view attention;  // "sdpa", "flex", "varlen"
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: latent attention has none
  int64_t head_dim = 0;  // 0: dim / heads
  int64_t ffn = 0;       // 0: of experts alone
  int64_t vocabulary = 0;
  int64_t experts = 0;  // 0: dense
  bool is_tied = false;
};

/// As torchtitan 0.2.2 lists them; tests/foreign/torchtitan_keys.py does so
/// again from the package.
std::span<const TorchTitanModel> torchtitan_models();

/// What is no size of a model that TorchTitan ships.
struct TorchTitanDetails {
  double norm_eps = 0;
  double rope_theta = 0;
  std::string_view rope_scaling = {};  // "llama3", "yarn"; empty: none
  double rope_factor = 0;
  /// llama3's other numbers are those of Llama 3.1: 1, 4, over 8192 positions.
  bool is_usual = true;
  /// Scaled only for longer sequences; 0: always.
  int64_t scaled_beyond = 0;
};

/// As the package's model_args have it; torchtitan_keys.py compares.
TorchTitanDetails torchtitan_details(const TorchTitanModel& model);

/// nullptr: another model, or one of the user's own.
const TorchTitanModel* torchtitan_model(const ForeignConfig& config);

/// How a pipeline schedule of torch.distributed.pipelining works.
struct TorchTitanSchedule {
  std::string_view name;
  bool is_multi = false;  // several stages on a rank
  bool is_v = false;      // exactly two of them
  /// Microbatches must split into rounds of pp.
  bool has_rounds = false;
  /// At least as many microbatches as stages.
  bool needs_full = false;
  std::string_view kind;  // RunFacts::schedule
};

/// By its name, whose case does not count; nullptr: there is none.
const TorchTitanSchedule* torchtitan_schedule(std::string_view name);

/// The names of all schedules, joined by ", ".
std::string torchtitan_schedule_names();

/// What a config says, or TorchTitan's default from the table of keys.
int64_t torchtitan_whole(const ForeignConfig& config, const std::string& key);
bool torchtitan_flag(const ForeignConfig& config, const std::string& key);
std::string torchtitan_word(const ForeignConfig& config,
                            const std::string& key);

}  // namespace triax
