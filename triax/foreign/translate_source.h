// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triax/base/json.h"
#include "triax/config/load.h"
#include "triax/foreign/foreign_config.h"
#include "triax/foreign/run_facts.h"

namespace triax {

/// One thing that a config says of its run, without its type.
struct NamedFact {
  std::string name;  // "zero_stage"
  Json value;        // null: not said
  /// The source's keys that say it together; empty: it was derived.
  std::vector<std::string> keys = {};
  bool is_default = false;  // the system's, nobody wrote it
};

/// A key that stands in the source, with what it holds.
struct SourceKey {
  std::string path;
  std::string text;  // the value, for people
  /// It says that something is off or absent, which no key says too.
  bool is_off = false;
  /// It says what the system takes without it.
  bool is_default = false;
  /// Somebody else fills it in later: "auto", "$1".
  bool is_open = false;
};

/// A run in the terms that all systems share, and every key of its config.
struct TranslationSource {
  System system = System::kTriax;
  std::vector<NamedFact> facts;
  std::vector<SourceKey> keys;

  /// nullptr: not said.
  const NamedFact* find(std::string_view name) const;
};

/// What is known of the run besides its config.
struct TranslationContext {
  std::optional<int64_t> world = {};
  std::optional<ModelConfig> model = {};
  /// What that model is besides its sizes: load_model_details().
  std::vector<NamedFact> model_details = {};
};

TranslationSource translation_source(const ForeignConfig& config,
                                     const TranslationContext& context = {});
/// A run file; `loaded` is resolved.
TranslationSource translation_source(const LoadedConfig& loaded);

/// Why `key` of a config of `from` is not carried to `to`: one clause.
std::string why_not_carried(const SourceKey& key, System from, System to);

/// The facts that RunFacts has no member for, each system in its own words.
std::vector<NamedFact> more_facts(const ForeignConfig& config,
                                  const RunFacts& facts);
std::vector<NamedFact> more_facts(const LoadedConfig& loaded);

/// Keys that say the same as, or belong to, a fact's own: (key, fact).
std::vector<std::pair<std::string, std::string>> companions(
    const ForeignConfig& config, const RunFacts& facts);

}  // namespace triax
