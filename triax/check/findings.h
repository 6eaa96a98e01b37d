// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triax/check/check.h"
#include "triax/check/divisors.h"

namespace triax {

/// What the rules read, and where they put what they find.
class Findings {
 public:
  Findings(const LoadedConfig& loaded, const CheckOptions& options)
      : config(loaded.config), options(options), loaded_(loaded) {}

  const RunConfig& config;
  const CheckOptions& options;

  const LoadedConfig& loaded() const { return loaded_; }
  bool is_set(const std::string& key) const { return loaded_.is_set(key); }
  /// " (dp was derived from 8 ranks / …)"; empty when the key was set.
  std::string derivation(const std::string& key) const;

  void error(const std::string& rule,
             const std::string& key,
             const std::string& message,
             const std::string& fix);
  void warning(const std::string& rule,
               const std::string& key,
               const std::string& message,
               const std::string& fix);
  void note(const std::string& rule,
            const std::string& key,
            const std::string& message,
            const std::string& fix);
  bool has_error() const { return has_errors(problems); }

  std::vector<Problem> problems;

 private:
  void add(Problem problem);

  const LoadedConfig& loaded_;
};

// The rules, by subject. Each adds what it finds.
void check_model(Findings& findings);
void check_layout(Findings& findings);
void check_zero_group(Findings& findings);
void check_offload_states(Findings& findings);
void check_batch(Findings& findings);
void check_training(Findings& findings);
void check_no_effect(Findings& findings);
void check_machine(Findings& findings);
void check_deadline_floor(Findings& findings);
void check_files(Findings& findings);
/// These need a config without errors: they count its bytes.
void check_memory(Findings& findings);
void check_deadline(Findings& findings);
void check_zero_buckets(Findings& findings);
void check_offload_folder(Findings& findings);
void check_zero_units(Findings& findings);
/// Needs a model without errors: it asks for the names of its parameters.
void check_patterns(Findings& findings);

}  // namespace triax
