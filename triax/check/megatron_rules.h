// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "triax/check/foreign_findings.h"
#include "triax/foreign/megatron_arguments_view.h"

namespace triax {

/// One assertion of Megatron-LM's, or one setting that it changes or passes
/// over in silence.
struct MegatronDemand {
  const char* rule;
  const char* key;  // where the finding stands
  /// Certainly not met. What is not known is not judged.
  bool (*is_broken)(const MegatronArguments&);
  const char* message;
  const char* fix;
  Severity severity = Severity::kError;
  Effect effect = Effect::kRefused;
};

/// Arguments that need or exclude each other, as a list.
std::span<const MegatronDemand> megatron_parallel_demands();
std::span<const MegatronDemand> megatron_model_demands();
std::span<const MegatronDemand> megatron_run_demands();
std::span<const MegatronDemand> megatron_silent_changes();

/// A training program of Megatron-LM's own, which adds no arguments.
bool is_own_megatron_program(std::string_view script);

// The rest, which is arithmetic. Each adds what it finds.
void check_megatron_keys(ForeignFindings& findings,
                         const MegatronArguments& args);
/// Arguments that Megatron-LM's own programs do not start without, the data's
/// and the tokenizer's too.
void check_megatron_required(ForeignFindings& findings,
                             const MegatronArguments& args);
void check_megatron_pipeline(ForeignFindings& findings,
                             const MegatronArguments& args);
/// --pipeline-model-parallel-layout; returns the chunks of a rank, nullopt:
/// not known.
std::optional<int64_t> check_megatron_layout(ForeignFindings& findings,
                                             const MegatronArguments& args,
                                             int64_t pp);
/// --hybrid-layer-pattern, which says the stages itself.
void check_megatron_pattern(ForeignFindings& findings,
                            const MegatronArguments& args);
void check_megatron_sizes(ForeignFindings& findings,
                          const MegatronArguments& args);
void check_megatron_ranges(ForeignFindings& findings,
                           const MegatronArguments& args);
void check_megatron_schedule(ForeignFindings& findings,
                             const MegatronArguments& args);
void check_megatron_environment(ForeignFindings& findings,
                                const MegatronArguments& args);

}  // namespace triax
