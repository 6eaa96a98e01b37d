// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triax/config/problem.h"
#include "triax/config/run_config.h"
#include "triax/foreign/foreign_config.h"
#include "triax/foreign/run_facts.h"
#include "triax/foreign/system.h"

namespace triax {

/// What is known besides the config. What is left out is not judged.
struct ForeignContext {
  std::optional<int64_t> world = {};          // ranks
  std::optional<int64_t> ranks_on_host = {};  // devices of one host
  std::optional<double> link_bytes_per_second =
      {};                                    // between hosts, of one rank
  std::optional<int64_t> device_bytes = {};  // memory of one device
  std::optional<ModelConfig> model = {};
  std::string model_file = {};
  /// Of a pair: what the file says whose layout this one is read in. What
  /// that file alone decides is judged there.
  std::optional<RunFacts> other = {};
  /// The other half of such a pair: what is absent may be the JSON's.
  bool is_of_pair = false;
  /// The system's version where it is not the table's: "0.14.5".
  std::string version = {};
  /// Somebody named the version: arguments of others are faults then.
  bool is_version_given = false;
  /// A run this one was made from: has the learning rate followed the batch?
  std::optional<RunFacts> reference = {};
};

/// What the rules over another system's config read, and where they put what
/// they find.
class ForeignFindings {
 public:
  ForeignFindings(const ForeignConfig& config,
                  const RunFacts& facts,
                  const ForeignContext& context)
      : config(config), facts(facts), context(context) {}

  const ForeignConfig& config;
  const RunFacts& facts;
  const ForeignContext& context;

  /// At a path of the config: its value's place, else the file. The returned
  /// reference holds until the next finding: set `edit` through it.
  Problem& error(const std::string& rule,
                 const std::string& path,
                 const std::string& message,
                 const std::string& fix,
                 Effect effect = Effect::kRefused);
  Problem& warning(const std::string& rule,
                   const std::string& path,
                   const std::string& message,
                   const std::string& fix,
                   Effect effect);
  Problem& note(const std::string& rule,
                const std::string& path,
                const std::string& message,
                const std::string& fix,
                Effect effect = Effect::kNone);
  /// Any finding; without a position it takes that of its field's value.
  Problem& add(Problem problem);
  /// Something a rule would have looked at and could not: "the world size is
  /// not known; give --world". Said once a rule.
  void not_judged(const std::string& what);

  /// The value at a path, nullptr: not set.
  const ConfigValue* value(const std::string& path) const {
    return find_value(config.table, path);
  }
  bool is_set(const std::string& path) const { return value(path) != nullptr; }

  /// At most a thousand. Where there are more, errors and warnings stay before
  /// notes, and num_left_out says how many went.
  std::vector<Problem> problems;
  int64_t num_left_out = 0;
  std::vector<std::string> unjudged;

 private:
  Problem left_out_;
  size_t next_spare_ = 0;  // notes at and above it have been given up
};

/// How a system takes what stands in its configs.
struct KeyRules {
  /// What comes of a key at the top level that no row names; of one in a
  /// section: its row says it.
  KeyUse unknown = KeyUse::kRefused;
  /// Why the value does not fit the row; empty: it does. nullptr: the strict
  /// rule, a value of the row's own type, whole numbers where numbers may be.
  std::string (*misfit)(const KeyRow& row, const ConfigValue& value) = nullptr;
  /// The config is of a program on the system's base, "GPT-NeoX", which has
  /// keys of its own: what no row names is then not judged.
  std::string_view fork = {};
};

/// The strict rule; bound_misfit() is its part about numbers.
std::string misfit_text(const KeyRow& row, const ConfigValue& value);
std::string bound_misfit(const KeyRow& row, const ConfigValue& value);

/// Walks the whole config along the system's table: unknown, misspelt,
/// misplaced, removed, renamed, deprecated and ignored keys; types, bounds and
/// choices. Each system's rules call it first.
void check_keys(ForeignFindings& findings,
                const KeyTable& keys,
                const KeyRules& rules);

// The rules of each system, in files of their own. Each adds what it finds;
// the rules over RunFacts run for all of them and are not called from here.
void check_deepspeed(ForeignFindings& findings);
void check_megatron(ForeignFindings& findings);
/// Arguments of Megatron-DeepSpeed; nothing for others.
void check_megatron_deepspeed(ForeignFindings& findings);

}  // namespace triax
