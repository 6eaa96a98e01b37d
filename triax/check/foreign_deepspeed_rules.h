// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triax/check/foreign_findings.h"
#include "triax/foreign/deepspeed_parameters.h"

namespace triax {

// What the files of DeepSpeed's rules share.

/// A flag as pydantic reads it; `or_else` where it is not set, or no flag.
bool deepspeed_flag(const ForeignFindings& findings,
                    const std::string& path,
                    bool or_else);

/// A number, a text that holds one, or a flag.
std::optional<double> deepspeed_number(const ForeignFindings& findings,
                                       const std::string& path);

/// Python's truth of a value.
bool deepspeed_truth(const ConfigValue& value);

/// The zero stage, 0 by default; nullopt: "auto", or no stage at all.
std::optional<int64_t> deepspeed_stage(const ForeignFindings& findings);

/// The program on DeepSpeed's base whose config it is, by its keys: "GPT-NeoX"
/// or "DeeperSpeed"; empty: DeepSpeed's own.
std::string_view deepspeed_fork(const ForeignFindings& findings);

/// Elastic training, which releases before 0.19.8 have, chooses the batch.
bool deepspeed_is_elastic(const ForeignFindings& findings);

/// What DeepSpeed clips at where gradient_clipping is left out; 0: not at all.
double deepspeed_default_clipping(const std::string& version);

/// What makes a run of Megatron-DeepSpeed's arguments a pipeline to DeepSpeed:
/// "pipeline-model-parallel-size 2"; empty: nothing does.
std::string deepspeed_pipeline_text(const ForeignConfig& config);

void check_deepspeed_elastic(ForeignFindings& findings);
void check_deepspeed_groups(ForeignFindings& findings, int64_t stage);
void check_deepspeed_zero(ForeignFindings& findings, int64_t stage);
void check_deepspeed_optimizer(ForeignFindings& findings, int64_t stage);

// Its numbers: those of optimizer.params and scheduler.params by the class that
// takes them, and the loss scale's power.
void check_optimizer_numbers(ForeignFindings& findings,
                             const ParameterRow& row);
void check_schedule_numbers(ForeignFindings& findings, const ParameterRow& row);
void check_scale_power(ForeignFindings& findings);

}  // namespace triax
