// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triax/check/foreign_findings.h"

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

void check_deepspeed_zero(ForeignFindings& findings, int64_t stage);
void check_deepspeed_optimizer(ForeignFindings& findings, int64_t stage);

}  // namespace triax
